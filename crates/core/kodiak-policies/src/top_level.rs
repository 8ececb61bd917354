//! Kinds that the top-level `targetRef` of a policy may have, in the sets that several policies share.

use kodiak_model::TargetKind;

/// Kinds that select sidecars.
pub(crate) const PROXIES: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshSubset,
    TargetKind::MeshService,
    TargetKind::MeshServiceSubset,
    TargetKind::Dataplane,
];

pub(crate) const PROXIES_AND_GATEWAYS: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshSubset,
    TargetKind::MeshService,
    TargetKind::MeshServiceSubset,
    TargetKind::Dataplane,
    TargetKind::MeshGateway,
];

pub(crate) const PROXIES_GATEWAYS_AND_ROUTES: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshSubset,
    TargetKind::MeshService,
    TargetKind::MeshServiceSubset,
    TargetKind::Dataplane,
    TargetKind::MeshGateway,
    TargetKind::MeshHTTPRoute,
];
