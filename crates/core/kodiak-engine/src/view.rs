//! EngineSettings of a mesh that apply to all its proxies.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kodiak_identity::ClientAccess;
use kodiak_model::kinds::mesh::{Mesh as MeshSpec, MeshServicesMode};
use kodiak_reachability::Mode;
use kodiak_rollout::{DesiredIdentities, Rollout};
use kodiak_rules::outbound::NameResolution;
use kodiak_services::reachable;
use kodiak_xds::{
    input::{Cas, Endpoint, TrustedCas, Validation},
    names::{self, Naming},
};

use crate::{Identities, class_key::Certificate, engine::UpdateContext};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    /// Whether the Mesh exists; its Dataplanes may arrive earlier.
    exists: bool,
    pub(crate) name: Arc<str>,
    pub(crate) rollout: Rollout,
    /// The record of the rollout cannot be read.
    pub(crate) lacks_rollout: bool,
    /// Identifies the rollout step that proxies acknowledge.
    pub(crate) token: Arc<str>,
    /// Trusted CAs, as they could last be read. `None` without mTLS.
    pub(crate) trusted: Option<TrustedCas>,
    /// Why those of the step cannot be read.
    pub(crate) trust_failure: Option<String>,
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

    /// Whether a trusted CA of the step cannot be read.
    pub(crate) fn lacks_trust(&self) -> bool {
        self.trust_failure.is_some()
    }

    /// How policies resolve plain names of services.
    pub(crate) fn resolution(&self) -> NameResolution {
        reachable::name_resolution(self.mode)
    }

    /// Validation context of a cluster whose servers have one of these SPIFFE IDs. `None` if the CAs could never be read.
    pub(crate) fn server_validation(&self, cluster: &str, accepted: Vec<String>) -> Option<Validation> {
        let trusted = self.trusted.clone()?;
        Some(Validation { name: names::server_validation_secret(&self.name, cluster).into(), trusted, accepted })
    }

    /// Whether clients with this certificate use mTLS, but for servers without one.
    pub(crate) fn calls_with_mtls(&self, client: &Certificate) -> bool {
        self.access_of(client) == ClientAccess::Mtls
    }

    /// Whether a client with this certificate could only call in plain text, which the mesh refuses.
    pub(crate) fn is_cut_off(&self, client: &Certificate) -> bool {
        self.access_of(client) == ClientAccess::CutOff
    }

    fn access_of(&self, client: &Certificate) -> ClientAccess {
        ClientAccess::of(&self.rollout, *client != Certificate::None)
    }

    /// Without a Mesh, the default settings. CAs that cannot be read stay as they are in `last`.
    pub(crate) fn of(
        name: &Arc<str>,
        spec: Option<&MeshSpec>,
        rollout: Option<&Rollout>,
        reachability: Option<Mode>,
        last: &Self,
        context: &UpdateContext<'_>,
    ) -> Self {
        let Some(spec) = spec else { return Self { name: name.clone(), ..Self::default() } };
        // Without a recorded rollout, the mesh is at its target.
        let rollout = rollout.cloned().unwrap_or_else(|| Rollout::target(spec, &DesiredIdentities::default()));
        let (trusted, trust_failure) = match trusted_cas(name, &rollout, context.identities) {
            Ok(trusted) => (trusted, None),
            Err(error) => (last.trusted.clone(), Some(format!("cannot read the trusted CAs: {error}"))),
        };
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
            lacks_rollout: false,
            trusted,
            trust_failure,
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

/// CAs that the proxies of a mesh trust. Those of backends are for the trust domain that is named like the mesh.
fn trusted_cas(mesh: &Arc<str>, rollout: &Rollout, identities: &dyn Identities) -> Result<Option<TrustedCas>, String> {
    let roots = rollout.trust.iter().map(|backend| identities.roots(mesh, backend));
    let roots: Vec<Arc<str>> = roots.collect::<Result<_, String>>()?;
    if rollout.trust_domains.is_empty() {
        let of_mesh = || Cas::Mesh { mesh: mesh.clone(), roots: joined(&roots) };
        return Ok((!roots.is_empty()).then(|| TrustedCas::new(of_mesh())));
    }
    let mut domains: BTreeMap<Arc<str>, Vec<Arc<str>>> = rollout.trust_domains.clone();
    if !roots.is_empty() {
        domains.entry(mesh.clone()).or_default().extend(roots);
    }
    let domains = domains.iter().map(|(domain, cas)| (domain.clone(), joined(cas)));
    Ok(Some(TrustedCas::new(Cas::Domains(domains.collect()))))
}

fn joined(pems: &[Arc<str>]) -> Arc<str> {
    pems.iter().map(|pem| pem.trim_end()).flat_map(|pem| [pem, "\n"]).collect::<String>().into()
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
