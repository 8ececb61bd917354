//! EngineSettings of a mesh that apply to all its proxies.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use kodiak_model::kinds::mesh::{Mesh as MeshSpec, MeshServicesMode};
use kodiak_reachability::Mode;
use kodiak_rollout::{DesiredIdentities, Rollout};
use kodiak_rules::outbound::NameResolution;
use kodiak_services::reachable;
use kodiak_xds::{
    input::{Endpoint, TlsSource},
    names::Naming,
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
    /// Trusted CAs, or why they cannot be read. `None` without mTLS.
    pub(crate) trusted: Option<Result<TrustedCas, String>>,
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

    /// Whether a trusted CA cannot be read.
    pub(crate) fn lacks_trust(&self) -> bool {
        matches!(self.trusted, Some(Err(_)))
    }

    /// How policies resolve plain names of services.
    pub(crate) fn resolution(&self) -> NameResolution {
        reachable::name_resolution(self.mode)
    }

    /// Where a proxy with this certificate gets it, and the CAs that it trusts.
    pub(crate) fn tls_source(&self, certificate: &Certificate) -> TlsSource {
        match (certificate, &self.trusted) {
            (Certificate::Spire(agent), _) => TlsSource::Spire(agent.clone()),
            (_, Some(Ok(TrustedCas::Domains(_)))) => TlsSource::TrustBundle,
            _ => TlsSource::MeshCa,
        }
    }

    /// Whether clients with this certificate use mTLS with a destination whose servers all have one.
    pub(crate) fn calls_with_mtls(&self, client: &Certificate) -> bool {
        self.rollout.call && *client != Certificate::None
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
        let rollout = rollout.cloned().unwrap_or_else(|| Rollout::target(spec, &DesiredIdentities::default()));
        let trusted = TrustedCas::of(name, &rollout, context.identities).transpose();
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

/// CAs that the proxies of a mesh trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TrustedCas {
    /// Root certificates (PEM) of the backends of the mesh.
    Mesh(Arc<str>),
    /// Root certificates by trust domain, sorted.
    Domains(Arc<[(Arc<str>, Arc<str>)]>),
}

impl TrustedCas {
    /// The CAs of backends are for the trust domain that is named like the mesh.
    fn of(mesh: &Arc<str>, rollout: &Rollout, identities: &dyn Identities) -> Result<Option<Self>, String> {
        let roots = rollout.trust.iter().map(|backend| identities.roots(mesh, backend));
        let roots: Vec<Arc<str>> = roots.collect::<Result<_, String>>()?;
        if rollout.trust_domains.is_empty() {
            return Ok((!roots.is_empty()).then(|| Self::Mesh(joined(&roots))));
        }
        let mut domains: BTreeMap<Arc<str>, Vec<Arc<str>>> = rollout.trust_domains.clone();
        if !roots.is_empty() {
            domains.entry(mesh.clone()).or_default().extend(roots);
        }
        Ok(Some(Self::Domains(domains.iter().map(|(domain, cas)| (domain.clone(), joined(cas))).collect())))
    }

    pub(crate) fn domains(&self) -> Arc<[Arc<str>]> {
        match self {
            Self::Mesh(_) => Arc::default(),
            Self::Domains(domains) => domains.iter().map(|(domain, _)| domain.clone()).collect(),
        }
    }
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
