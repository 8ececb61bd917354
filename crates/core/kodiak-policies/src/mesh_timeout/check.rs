//! Validation of MeshTimeout.

use kodiak_model::{CheckCtx, FieldPath, GoDuration, Problems, TargetKind, TargetRef, TargetRules};

use super::{Conf, Http, MeshTimeout};
use crate::{from_to, from_to::is_used, matches, top_level};

const TO: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshService,
    TargetKind::MeshExternalService,
    TargetKind::MeshMultiZoneService,
    TargetKind::MeshHTTPRoute,
];
const TO_OF_ROUTE_OR_GATEWAY: &[TargetKind] = &[TargetKind::Mesh, TargetKind::MeshExternalService];

pub(super) fn check(spec: &MeshTimeout, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshTimeout { target_ref, to, from, rules } = spec;
    let (has_to, has_from, has_rules) = (is_used(to.as_ref()), is_used(from.as_ref()), is_used(rules.as_ref()));
    if let Some(target) = target_ref {
        let kinds = if ctx.is_system_role() { top_level::PROXIES_GATEWAYS_AND_ROUTES } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    if has_rules && (has_to || has_from) {
        problems.add(&at, "fields 'to' and 'from' must be empty when 'rules' is defined");
    }
    if !has_to && !has_from && !has_rules {
        problems.add(&at, "at least one of 'from', 'to' or 'rules' has to be defined");
    }
    let route_or_gateway = matches!(
        target_ref.as_ref().and_then(TargetRef::known_kind),
        Some(TargetKind::MeshHTTPRoute | TargetKind::MeshGateway)
    );
    if route_or_gateway && has_from {
        problems.add(&at.field("from"), "must not be defined");
    }
    let to_kinds = if route_or_gateway { TO_OF_ROUTE_OR_GATEWAY } else { TO };
    from_to::check_items(to.as_ref(), TargetRules::kinds(to_kinds), &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let from_mesh = TargetRules::kinds(&[TargetKind::Mesh]);
    from_to::check_items(from.as_ref(), from_mesh, &at.field("from"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let at = at.field("rules");
    for (n, rule) in rules.iter().flatten().enumerate() {
        let at = at.index(n);
        check_conf(&rule.default, &at.field("default"), problems);
        matches::check_strictly(rule.matches.as_ref(), &at.field("matches"), problems);
        if matches::depend_on_caller(rule.matches.as_ref()) {
            check_conditioned(&rule.default, &at.field("default"), problems);
        }
    }
}

/// The caller is known only once the connection is established, so connection settings cannot depend on it.
fn check_conditioned(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    const MESSAGE: &str =
        "can't be specified when matches contain spiffeID because this field cannot be conditioned on source identity";
    let http = conf.http.clone().unwrap_or_default();
    let at_http = at.field("http");
    problems.require(conf.connection_timeout.is_none(), &at.field("connectionTimeout"), MESSAGE);
    problems.require(conf.idle_timeout.is_none(), &at.field("idleTimeout"), MESSAGE);
    problems.require(http.request_headers_timeout.is_none(), &at_http.field("requestHeadersTimeout"), MESSAGE);
    problems.require(http.max_stream_duration.is_none(), &at_http.field("maxStreamDuration"), MESSAGE);
    problems.require(http.max_connection_duration.is_none(), &at_http.field("maxConnectionDuration"), MESSAGE);
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { connection_timeout, idle_timeout, http } = conf;
    if connection_timeout.is_none() && idle_timeout.is_none() && http.is_none() {
        problems.add(at, "at least one timeout should be configured");
        return;
    }
    let positive = connection_timeout.is_none_or(|timeout| timeout > GoDuration::ZERO);
    problems.require(positive, &at.field("connectionTimeout"), "must be greater than zero when defined");
    not_negative(*idle_timeout, &at.field("idleTimeout"), problems);
    let Some(http) = http else { return };
    let at = at.field("http");
    let Http {
        request_timeout,
        stream_idle_timeout,
        max_stream_duration,
        max_connection_duration,
        request_headers_timeout,
    } = http;
    let enough = [request_timeout, stream_idle_timeout, max_stream_duration, max_connection_duration];
    if enough.iter().all(|timeout| timeout.is_none()) {
        problems.add(&at, "at least one timeout in this section should be configured");
    }
    not_negative(*request_timeout, &at.field("requestTimeout"), problems);
    not_negative(*stream_idle_timeout, &at.field("streamIdleTimeout"), problems);
    not_negative(*max_stream_duration, &at.field("maxStreamDuration"), problems);
    not_negative(*max_connection_duration, &at.field("maxConnectionDuration"), problems);
    not_negative(*request_headers_timeout, &at.field("requestHeadersTimeout"), problems);
}

fn not_negative(timeout: Option<GoDuration>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(!timeout.is_some_and(GoDuration::is_negative), at, "must not be negative when defined");
}
