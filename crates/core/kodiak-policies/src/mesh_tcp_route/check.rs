//! Validation of MeshTCPRoute.

use kodiak_model::{CheckCtx, FieldPath, Problems};

use super::{MeshTCPRoute, RuleConf, To};
use crate::routes::{BACKENDS, Callers};

pub(super) fn check(spec: &MeshTCPRoute, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let MeshTCPRoute { target_ref, to } = spec;
    let callers = Callers::check(target_ref.as_ref(), ctx, problems);
    let at = FieldPath::SPEC.field("to");
    for (n, To { target_ref, rules }) in to.iter().flatten().enumerate() {
        let at = at.index(n);
        target_ref.check(callers.destinations(), &at.field("targetRef"), problems);
        let at = at.field("rules");
        for (n, rule) in rules.iter().enumerate() {
            check_conf(&rule.default, &at.index(n).field("default"), problems);
        }
    }
}

fn check_conf(conf: &RuleConf, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("backendRefs");
    let backends = conf.backend_refs.as_deref().unwrap_or_default();
    problems.require(!backends.is_empty(), &at, "must be defined");
    for (n, backend) in backends.iter().enumerate() {
        backend.check(BACKENDS, &at.index(n), problems);
    }
}
