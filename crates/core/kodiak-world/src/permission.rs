//! Unreadable permissions deny.
//!
//! Ignoring one could widen access: it may have been a Deny beside a broad Allow. So it is replaced by a permission
//! that denies every request to the proxies it targets, or to all proxies of the mesh when the target is unreadable
//! too. The replacement has `rules`, in which a Deny overrides the Allow of other permissions.

use std::sync::Arc;

use kodiak_model::{
    TargetRef,
    policy::{Body, Conf, RuleItem},
};
use kodiak_rules::Policy;
use serde_json::{Value, json};

/// Whether ignoring a policy of this kind could allow requests that it denies.
pub(crate) fn is_permission(kind: &str) -> bool {
    kind == "MeshTrafficPermission"
}

/// The same permission with every request denied. `None` for other kinds: ignoring those does not widen access.
pub fn deny_all(policy: &Policy) -> Option<Arc<Policy>> {
    let denied = || Policy { body: denying(policy.body.target.clone()), ..policy.clone() };
    is_permission(policy.kind.name).then(|| Arc::new(denied()))
}

/// Replacement of an unreadable spec, with its target if that is readable.
pub(crate) fn denying_like(spec: &str) -> Body {
    let spec: Value = serde_json::from_str(spec).unwrap_or_default();
    let target = spec.get("targetRef").and_then(|target| serde_json::from_value::<TargetRef>(target.clone()).ok());
    denying(target.filter(|target| target.known_kind().is_some()))
}

fn denying(target: Option<TargetRef>) -> Body {
    let everybody = RuleItem { matches: Vec::new(), conf: Conf::new(json!({ "deny": [{}] })) };
    Body { target, rules: vec![everybody], ..Body::default() }
}
