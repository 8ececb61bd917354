//! EngineSettings of a mesh that apply to all its proxies.

use std::{net::IpAddr, sync::Arc};

use kodiak_model::kinds::mesh::{Mesh as MeshSpec, MeshServicesMode};
use kodiak_reachability::Mode;
use kodiak_rollout::Rollout;
use kodiak_rules::outbound::NameResolution;
use kodiak_services::reachable;
use kodiak_xds::{input::Endpoint, names::Naming};

use crate::engine::UpdateContext;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether the Mesh exists; its Dataplanes may arrive earlier.
    exists: bool,
    pub(crate) name: Arc<str>,
    pub(crate) rollout: Rollout,
    /// Identifies the rollout step that proxies acknowledge.
    pub(crate) token: Arc<str>,
    /// Trusted root certificates (PEM), or why they cannot be read. `None` without mTLS.
    pub(crate) roots: Option<Result<Arc<str>, String>>,
    /// Whether connections to unknown destinations pass through.
    pub(crate) passthrough: bool,
    /// The zone of the control plane.
    pub(crate) zone: Arc<str>,
    /// For services by `kuma.io/service`.
    pub(crate) zone_priority: ZonePriority,
    pub(crate) mode: MeshServicesMode,
    pub(crate) naming: Naming,
    /// Of Dataplanes without the label.
    pub(crate) reachability: Mode,
    pub(crate) external: ExternalAccess,
    /// Zone egresses of this zone.
    pub(crate) egresses: Arc<[Endpoint]>,
}

impl View {
    pub(crate) fn has_legacy_destinations(&self) -> bool {
        reachable::has_legacy_destinations(self.mode)
    }

    /// How policies resolve plain names of services.
    pub(crate) fn resolution(&self) -> NameResolution {
        reachable::name_resolution(self.mode)
    }

    /// Without a Mesh, the default settings.
    pub(crate) fn of(
        name: &Arc<str>,
        spec: Option<&MeshSpec>,
        rollout: Option<&Rollout>,
        reachability: Option<Mode>,
        context: &UpdateContext<'_>,
    ) -> Self {
        let Some(spec) = spec else { return Self { name: name.clone(), ..Self::default() } };
        // Without a recorded rollout, the mesh is at its target.
        let rollout = rollout.cloned().unwrap_or_else(|| Rollout::target(spec));
        let roots = (!rollout.trust.is_empty()).then(|| {
            let roots = rollout.trust.iter().map(|backend| context.identities.roots(name, backend));
            let roots: Vec<Arc<str>> = roots.collect::<Result<_, String>>()?;
            Ok(roots.iter().map(|pem| pem.trim_end()).flat_map(|pem| [pem, "\n"]).collect::<String>().into())
        });
        let routing = spec.routing.clone().unwrap_or_default();
        let zone_priority =
            if routing.locality_aware_load_balancing { ZonePriority::LocalFirst } else { ZonePriority::Equal };
        let egresses = egresses(context);
        let external = match () {
            () if routing.zone_egress || (!egresses.is_empty() && rollout.call) => ExternalAccess::Egress,
            () if routing.default_forbid_mesh_external_service_access => ExternalAccess::Forbidden,
            () => ExternalAccess::Direct,
        };
        Self {
            exists: true,
            name: name.clone(),
            token: rollout.token().into(),
            rollout,
            roots,
            passthrough: spec.passthrough(),
            zone: context.settings.zone.clone(),
            zone_priority,
            mode: spec.mesh_services_mode(),
            naming: context.settings.naming,
            reachability: reachability.unwrap_or(context.settings.reachability),
            external,
            egresses,
        }
    }
}

/// Access to MeshExternalServices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ExternalAccess {
    #[default]
    Direct,
    /// Through a zone egress.
    Egress,
    Forbidden,
}

/// Priority of endpoints by their zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum ZonePriority {
    #[default]
    Equal,
    /// Endpoints in the zone of the control plane come before those in other zones.
    LocalFirst,
}

/// Zone egresses of this zone with an IP address.
fn egresses(context: &UpdateContext<'_>) -> Arc<[Endpoint]> {
    let own =
        context.egresses.values().filter(|egress| egress.zone.is_empty() || *egress.zone == *context.settings.zone);
    let mut endpoints: Vec<Endpoint> = own
        .filter_map(|egress| {
            let networking = egress.networking.as_ref()?;
            networking.address.parse::<IpAddr>().ok()?;
            let address = networking.address.as_str().into();
            Some(Endpoint { address, port: networking.port, weight: 1, ..Endpoint::default() })
        })
        .collect();
    endpoints.sort();
    endpoints.into()
}
