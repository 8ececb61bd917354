//! MeshProxyPatch: patches the generated Envoy configuration of proxies.

mod check;
mod envoy;
mod filters;
mod http;
mod json_patch;
mod matching;
mod spec;
mod step;
mod value;

use kodiak_model::{CheckCtx, Kind, Language, NoStatus, PolicyFacts, Problems, Spec, policy::ConfShape, target_ref};

pub use envoy::{ADDED, ProxyPatches, changes, is_fault_of};
pub use json_patch::{JsonPatch, JsonPatchOp};
pub use spec::{
    ClusterMatch, ClusterMod, Conf, FilterMatch, FilterMod, FilterOperation, ListenerMatch, ListenerMod,
    MeshProxyPatch, Modification, ResourceOperation, VirtualHostMatch, VirtualHostMod,
};
pub use step::{Effect, Resource, ResourceType, Step};

pub const POLICY: Option<&dyn crate::Policy> = Some(&Patching);

pub static KIND: Kind = Kind::policy(
    "MeshProxyPatch",
    "meshproxypatches",
    "mpp",
    PolicyFacts { to: false, from: false, rules: false, from_as_rules: false, conf: ConfShape::Default, order: 9999 },
    Language::of::<MeshProxyPatch>(),
);

/// Has no hook: [`ProxyPatches`] are applied after all hooks, to finished resources.
struct Patching;

impl crate::Policy for Patching {
    fn kind(&self) -> &'static Kind {
        &KIND
    }
}

impl Spec for MeshProxyPatch {
    type Status = NoStatus;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn warnings(&self, _: &CheckCtx<'_>) -> Vec<String> {
        target_ref::deprecations(self.target_ref.as_ref())
    }
}
