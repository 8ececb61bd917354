//! Validation of MeshHTTPRoute.

mod filters;
mod matches;

use kodiak_model::{CheckCtx, FieldPath, Problems};

use super::{Filter, FilterType, MeshHTTPRoute, Rule, RuleConf, To};
use crate::{
    from_to,
    routes::{BACKENDS, Callers},
};

pub(super) fn check(spec: &MeshHTTPRoute, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let MeshHTTPRoute { target_ref, to } = spec;
    let callers = Callers::check(target_ref.as_ref(), ctx, problems);
    let at = FieldPath::SPEC.field("to");
    for (n, to) in to.iter().flatten().enumerate() {
        check_to(to, callers, &at.index(n), problems);
    }
}

fn check_to(to: &To, callers: Callers, at: &FieldPath<'_>, problems: &mut Problems) {
    let To { hostnames, target_ref, rules } = to;
    target_ref.check(callers.destinations(), &at.field("targetRef"), problems);
    if callers == Callers::Sidecars && from_to::is_used(hostnames.as_ref()) {
        problems.add(&at.field("hostnames"), "must not be defined");
    }
    let at = at.field("rules");
    for (n, rule) in rules.iter().enumerate() {
        check_rule(rule, callers, &at.index(n), problems);
    }
}

fn check_rule(rule: &Rule, callers: Callers, at: &FieldPath<'_>, problems: &mut Problems) {
    let at_matches = at.field("matches");
    for (n, one) in rule.matches.iter().enumerate() {
        matches::check(one, &at_matches.index(n), problems);
    }
    let at_default = at.field("default");
    let at_filters = at_default.field("filters");
    for (n, filter) in rule.default.filters.iter().flatten().enumerate() {
        filters::check(filter, &rule.matches, callers, &at_filters.index(n), problems);
    }
    check_backends(&rule.default, callers, &at_default.field("backendRefs"), problems);
}

fn check_backends(conf: &RuleConf, callers: Callers, at: &FieldPath<'_>, problems: &mut Problems) {
    let RuleConf { filters, backend_refs } = conf;
    let backends = backend_refs.as_deref().unwrap_or_default();
    let redirected = filters.iter().flatten().any(is_redirect);
    // A gateway has no default destination.
    if backends.is_empty() && callers == Callers::Gateway && !redirected {
        problems.add(at, "must not be empty");
    }
    for (n, backend) in backends.iter().enumerate() {
        backend.check(BACKENDS, &at.index(n), problems);
    }
}

fn is_redirect(filter: &Filter) -> bool {
    filter.filter_type.as_ref().is_some_and(|one| one.is(FilterType::RequestRedirect))
}
