//! Validation of MeshRateLimit.

use kodiak_model::{CheckCtx, FieldPath, GoDuration, Problems, TargetKind, TargetRules};

use super::{Conf, Local, LocalHttp, LocalTcp, MeshRateLimit, Rate};
use crate::{
    from_to::{self, is_used},
    gateway_scope::GatewayScope,
    matches, positive, top_level,
};

const MESH: TargetRules<'_> = TargetRules::kinds(&[TargetKind::Mesh]);

pub(super) fn check(spec: &MeshRateLimit, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshRateLimit { target_ref, to, from, rules } = spec;
    let (has_to, has_from, has_rules) = (is_used(to.as_ref()), is_used(from.as_ref()), is_used(rules.as_ref()));
    if has_rules && (has_to || has_from) {
        problems.add(&at, "fields 'to' and 'from' must be empty when 'rules' is defined");
    }
    if let Some(target) = target_ref {
        let of_system = ctx.is_system_role();
        let kinds = if of_system { top_level::PROXIES_GATEWAYS_AND_ROUTES } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    let scope = GatewayScope::of(target_ref.as_ref());
    let rules = scope.rules(rules.as_ref(), &at, problems);
    let from = scope.from(from.as_ref(), &at, problems);
    let to = scope.to(to.as_ref(), &at, problems);
    from_to::check_items(from, MESH, &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    from_to::check_items(to, MESH, &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let at = at.field("rules");
    for (n, rule) in rules.into_iter().flatten().enumerate() {
        let at = at.index(n);
        matches::check_strictly(rule.matches.as_ref(), &at.field("matches"), problems);
        check_conf(&rule.default, &at.field("default"), problems);
        if matches::depend_on_caller(rule.matches.as_ref()) {
            check_conditioned(&rule.default, &at.field("default"), problems);
        }
    }
}

/// Connections are counted before the caller is known.
fn check_conditioned(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let counts_connections = conf.local.as_ref().is_some_and(|local| local.tcp.is_some());
    problems.require(
        !counts_connections,
        &at.field("local").field("tcp"),
        "can't be specified when matches contain spiffeID because this field cannot be conditioned on source identity",
    );
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let at = at.field("local");
    let Some(Local { http, tcp }) = &conf.local else {
        problems.add(&at, "must be defined");
        return;
    };
    if http.is_none() && tcp.is_none() {
        problems.add(&at, "must have at least one defined: tcp, http");
    }
    if let Some(http) = http {
        check_http(http, &at.field("http"), problems);
    }
    if let Some(tcp) = tcp {
        check_tcp(tcp, &at.field("tcp"), problems);
    }
}

fn check_http(http: &LocalHttp, at: &FieldPath<'_>, problems: &mut Problems) {
    let LocalHttp { disabled, request_rate, on_rate_limit } = http;
    if disabled.is_none() && request_rate.is_none() && on_rate_limit.is_none() {
        problems.add(at, "must have at least one defined: disabled, requestRate, onRateLimit");
    }
    check_rate(request_rate.as_ref(), &at.field("requestRate"), problems);
    let status = on_rate_limit.as_ref().and_then(|answer| answer.status);
    positive::check_count(status, &at.field("onRateLimit").field("status"), problems);
}

fn check_tcp(tcp: &LocalTcp, at: &FieldPath<'_>, problems: &mut Problems) {
    let LocalTcp { disabled, connection_rate } = tcp;
    if disabled.is_none() && connection_rate.is_none() {
        problems.add(at, "must have at least one defined: disabled, connectionRate");
    }
    check_rate(connection_rate.as_ref(), &at.field("connectionRate"), problems);
}

fn check_rate(rate: Option<&Rate>, at: &FieldPath<'_>, problems: &mut Problems) {
    const SHORTEST: GoDuration = GoDuration::from_millis(50);
    let Some(Rate { num, interval }) = rate else { return };
    positive::check_count(Some(*num), &at.field("num"), problems);
    problems.require(*interval > SHORTEST, &at.field("interval"), "must be greater than: 50ms");
}
