//! The kinds that the `targetRef` at the top of a policy may name, in the sets that several policies share.

use kodiak_model::TargetKind;

/// What selects sidecars.
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
