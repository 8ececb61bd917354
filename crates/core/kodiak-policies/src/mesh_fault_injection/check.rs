//! Validation of MeshFaultInjection.

use kodiak_model::{CheckCtx, FieldPath, GoDuration, Problems, TargetKind, TargetRules};

use super::{Abort, Conf, Delay, Fault, MeshFaultInjection, ResponseBandwidth};
use crate::{
    from_to::{self, is_used},
    gateway_scope::GatewayScope,
    matches, percentage, top_level,
};

const FROM: &[TargetKind] =
    &[TargetKind::Mesh, TargetKind::MeshSubset, TargetKind::MeshService, TargetKind::MeshServiceSubset];

pub(super) fn check(spec: &MeshFaultInjection, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshFaultInjection { target_ref, to, from, rules } = spec;
    let (has_from, has_rules) = (is_used(from.as_ref()), is_used(rules.as_ref()));
    if let Some(target) = target_ref {
        let kinds = if ctx.is_system_role() { top_level::PROXIES_AND_GATEWAYS } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    problems.require(!has_from || !has_rules, &at, "field 'from' must be empty when 'rules' is defined");
    let scope = GatewayScope::of(target_ref.as_ref());
    let from = scope.from(from.as_ref(), &at, problems);
    let to = scope.to(to.as_ref(), &at, problems);
    from_to::check_items(from, TargetRules::kinds(FROM), &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let to_mesh = TargetRules::kinds(&[TargetKind::Mesh]);
    from_to::check_items(to, to_mesh, &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let at = at.field("rules");
    for (n, rule) in rules.iter().flatten().enumerate() {
        let at = at.index(n);
        matches::check(rule.matches.as_ref(), &at.field("matches"), problems);
        check_conf(&rule.default, &at.field("default"), problems);
    }
}

/// Kuma's paths have the index after the name of the fault: `http.abort[0]`.
fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("http");
    for (n, Fault { abort, delay, response_bandwidth }) in conf.http.iter().flatten().enumerate() {
        if let Some(Abort { http_status, percentage }) = abort {
            let at = at.field("abort");
            let at = at.index(n);
            let is_status = (100..=599).contains(http_status);
            problems.require(is_status, &at.field("httpStatus"), "must be in inclusive range [100, 599]");
            percentage::check(percentage.as_ref(), &at.field("percentage"), problems);
        }
        if let Some(Delay { value, percentage }) = delay {
            let at = at.field("delay");
            let at = at.index(n);
            check_delay(*value, &at.field("value"), problems);
            percentage::check(percentage.as_ref(), &at.field("percentage"), problems);
        }
        if let Some(ResponseBandwidth { limit, percentage }) = response_bandwidth {
            let at = at.field("responseBandwidth");
            let at = at.index(n);
            check_limit(limit, &at.field("responseBandwidth").field("limit"), problems);
            percentage::check(percentage.as_ref(), &at.field("percentage"), problems);
        }
    }
}

fn check_delay(value: Option<GoDuration>, at: &FieldPath<'_>, problems: &mut Problems) {
    match value {
        None => problems.add(at, "must be defined"),
        Some(value) => problems.require(!value.is_negative(), at, "must not be negative when defined"),
    }
}

/// `50 Mbps`; the space is optional.
fn check_limit(limit: &str, at: &FieldPath<'_>, problems: &mut Problems) {
    if limit.is_empty() {
        problems.add(at, "must be defined");
        return;
    }
    let unit = limit.trim_start_matches(|c: char| c.is_ascii_digit());
    let unit = unit.strip_prefix(char::is_whitespace).unwrap_or(unit);
    problems.require(["kbps", "Mbps", "Gbps"].contains(&unit), at, "must be in kbps/Mbps/Gbps units");
}
