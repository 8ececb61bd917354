//! Permissions that cannot be read deny.
//!
//! Leaving one out could widen access: it may have been the Deny beside a broad Allow. So a permission takes its place
//! that denies every call to the proxies it targets; all proxies of the mesh when the target cannot be read either. It
//! is of the `rules` form, where a denial decides whatever other permissions allow.

use std::sync::Arc;

use kodiak_model::{
    TargetRef,
    policy::{Body, Conf, RuleItem},
};
use kodiak_rules::Policy;
use serde_json::{Value, json};

/// Whether leaving out a policy of this kind could admit calls that it denies.
pub(crate) fn is_permission(kind: &str) -> bool {
    kind == "MeshTrafficPermission"
}

/// The same permission with every call denied. `None` for other kinds: leaving those out widens nothing.
pub fn deny_all(policy: &Policy) -> Option<Arc<Policy>> {
    let denied = || Policy { body: denying(policy.body.target.clone()), ..policy.clone() };
    is_permission(policy.kind.name).then(|| Arc::new(denied()))
}

/// For a spec of which only the target can be read, or not even that.
pub(crate) fn denying_like(spec: &str) -> Body {
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    let target = spec.get("targetRef").and_then(|target| serde_json::from_value::<TargetRef>(target.clone()).ok());
    denying(target.filter(|target| target.known_kind().is_some()))
}

fn denying(target: Option<TargetRef>) -> Body {
    let everybody = RuleItem { matches: Vec::new(), conf: Conf::new(json!({ "deny": [{}] })) };
    Body { target, rules: vec![everybody], ..Body::default() }
}
