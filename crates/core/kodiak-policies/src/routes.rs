//! Shared parts of MeshHTTPRoute and MeshTCPRoute: selected proxies and backends.

use kodiak_model::{BackendRef, CheckCtx, FieldPath, Problems, TargetKind, TargetRef, TargetRules};

use crate::target::{Backend, Backends};
use crate::top_level;

pub(crate) const BACKENDS: &[TargetKind] = &[
    TargetKind::MeshService,
    TargetKind::MeshServiceSubset,
    TargetKind::MeshExternalService,
    TargetKind::MeshMultiZoneService,
];

const DESTINATIONS: &[TargetKind] =
    &[TargetKind::MeshService, TargetKind::MeshExternalService, TargetKind::MeshMultiZoneService];

/// Proxies whose traffic a route applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Sidecars,
    /// Its traffic comes from outside the mesh, so it has no destination yet.
    Gateway,
}

impl Callers {
    /// Validates the top-level `targetRef`. Only policies with the `system` role may select gateways.
    pub(crate) fn check(target: Option<&TargetRef>, ctx: &CheckCtx<'_>, problems: &mut Problems) -> Self {
        let Some(target) = target else { return Self::Sidecars };
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: false };
        target.check(rules, &FieldPath::SPEC.field("targetRef"), problems);
        if target.known_kind() == Some(TargetKind::MeshGateway) { Self::Gateway } else { Self::Sidecars }
    }

    /// Kinds that `to[].targetRef` may reference.
    pub(crate) fn destinations(self) -> TargetRules<'static> {
        TargetRules::kinds(match self {
            Self::Sidecars => DESTINATIONS,
            Self::Gateway => &[TargetKind::Mesh],
        })
    }
}

/// A backend and its share of the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) weight: u32,
}

/// The backends that were found and have a weight above zero.
pub(crate) fn splits<'a>(written: &[BackendRef], backends: &'a Backends) -> Vec<Split<'a>> {
    let split = |one: &BackendRef| Some(Split { backend: backends.get(one)?, weight: one.weight });
    written.iter().filter(|one| one.weight > 0).filter_map(split).collect()
}
