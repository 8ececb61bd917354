//! MeshProxyPatch: patches the generated Envoy configuration of proxies.

mod check;
mod json_patch;
mod spec;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use json_patch::{JsonPatch, JsonPatchOp};
pub use spec::{
    ClusterMatch, ClusterMod, Conf, FilterMatch, FilterMod, FilterOperation, ListenerMatch, ListenerMod,
    MeshProxyPatch, Modification, ResourceOperation, VirtualHostMatch, VirtualHostMod,
};

/// Not implemented: without effect on proxies.
pub const POLICY: Option<&dyn crate::Policy> = None;

pub static KIND: Kind = Kind::policy(
    "MeshProxyPatch",
    "meshproxypatches",
    "mpp",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 9999 },
    Language::of::<MeshProxyPatch>(),
)
.without_effect(crate::NOT_SUPPORTED_YET);

impl Spec for MeshProxyPatch {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
