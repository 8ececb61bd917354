//! What MeshHTTPRoute and MeshTCPRoute share: whose traffic they route, and where to.

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

/// Whose traffic a route is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Sidecars,
    /// Its traffic comes from outside, so it has no destination yet.
    Gateway,
}

impl Callers {
    /// Checks the top-level ref. Only policies of the system may speak about gateways.
    pub(crate) fn check(target: Option<&TargetRef>, ctx: &CheckCtx<'_>, problems: &mut Problems) -> Self {
        let Some(target) = target else { return Self::Sidecars };
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: false };
        target.check(rules, &FieldPath::SPEC.field("targetRef"), problems);
        if target.known_kind() == Some(TargetKind::MeshGateway) { Self::Gateway } else { Self::Sidecars }
    }

    /// What `to[].targetRef` may name.
    pub(crate) fn destinations(self) -> TargetRules<'static> {
        TargetRules::kinds(match self {
            Self::Sidecars => DESTINATIONS,
            Self::Gateway => &[TargetKind::Mesh],
        })
    }
}

/// A part of the calls, and who gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) weight: u32,
}

/// Of what was written, the backends that are known and get a part of the calls.
pub(crate) fn splits<'a>(written: &[BackendRef], backends: &'a Backends) -> Vec<Split<'a>> {
    let split = |one: &BackendRef| Some(Split { backend: backends.get(one)?, weight: one.weight });
    written.iter().filter(|one| one.weight > 0).filter_map(split).collect()
}
