//! Validation of MeshRetry.
//!
//! Kuma reports problems of confs under `default.conf`, a segment that documents do not have.

mod retry_on;

use kodiak_model::{CheckCtx, Choice, FieldPath, GoDuration, Problems, TargetKind, TargetRef, TargetRules};

use super::{BackOff, Conf, Grpc, Http, MeshRetry, Predicate, PredicateType, RateLimitedBackOff, Tcp};
use crate::{from_to, top_level};

const TO: &[TargetKind] = &[
    TargetKind::Mesh,
    TargetKind::MeshService,
    TargetKind::MeshExternalService,
    TargetKind::MeshMultiZoneService,
    TargetKind::MeshHTTPRoute,
];
const TO_OF_ROUTE_OR_GATEWAY: &[TargetKind] = &[TargetKind::Mesh, TargetKind::MeshExternalService];

pub(super) fn check(spec: &MeshRetry, ctx: &CheckCtx<'_>, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshRetry { target_ref, to } = spec;
    if let Some(target) = target_ref {
        // Only policies with the `system` role may select gateways and routes.
        let kinds = if ctx.is_system_role() { top_level::PROXIES_GATEWAYS_AND_ROUTES } else { top_level::PROXIES };
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: false };
        target.check(rules, &at.field("targetRef"), problems);
    }
    let at_to = at.field("to");
    let to_kinds = match target_ref.as_ref().and_then(TargetRef::known_kind) {
        Some(TargetKind::MeshHTTPRoute | TargetKind::MeshGateway) => TO_OF_ROUTE_OR_GATEWAY,
        _ => TO,
    };
    from_to::check_items(to.as_ref(), TargetRules::kinds(to_kinds), &at_to, problems, |item, at, problems| {
        check_conf(&item.default, &at.field("conf"), problems);
    });
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { tcp, http, grpc } = conf;
    if tcp.is_none() && http.is_none() && grpc.is_none() {
        problems.add(at, "at least one of the 'tcp', 'http', 'grpc' must be specified");
    }
    if let Some(tcp) = tcp {
        check_tcp(tcp, &at.field("tcp"), problems);
    }
    if let Some(http) = http {
        check_http(http, &at.field("http"), problems);
    }
    if let Some(grpc) = grpc {
        check_grpc(grpc, &at.field("grpc"), problems);
    }
}

fn check_tcp(tcp: &Tcp, at: &FieldPath<'_>, problems: &mut Problems) {
    match tcp.max_connect_attempt {
        None => problems.add(at, "must not be empty"),
        Some(0) => problems.add(&at.field("maxConnectAttempt"), "must be greater than 0"),
        Some(_) => (),
    }
}

fn check_http(http: &Http, at: &FieldPath<'_>, problems: &mut Problems) {
    let Http {
        num_retries,
        per_try_timeout,
        back_off,
        rate_limited_back_off,
        retry_on,
        retriable_response_headers,
        retriable_request_headers,
        host_selection,
        // Has no effect without a selection.
        host_selection_max_attempts: _,
    } = http;
    let empty = num_retries.is_none()
        && per_try_timeout.is_none()
        && back_off.is_none()
        && rate_limited_back_off.is_none()
        && retry_on.is_none()
        && retriable_response_headers.is_none()
        && retriable_request_headers.is_none()
        && host_selection.is_none();
    problems.require(!empty, at, "must not be empty");
    check_back_offs(back_off.as_ref(), rate_limited_back_off.as_ref(), at, problems);
    retry_on::check_http(retry_on.as_deref().unwrap_or_default(), &at.field("retryOn"), problems);
    let headers = [
        ("retriableResponseHeaders", retriable_response_headers),
        ("retriableRequestHeaders", retriable_request_headers),
    ];
    for (field, list) in headers {
        let at = at.field(field);
        for (n, header) in list.iter().flatten().enumerate() {
            header.check(&at.index(n), problems);
        }
    }
    check_host_selection(host_selection.as_deref().unwrap_or_default(), &at.field("hostSelection"), problems);
}

fn check_grpc(grpc: &Grpc, at: &FieldPath<'_>, problems: &mut Problems) {
    let Grpc { num_retries, per_try_timeout, back_off, rate_limited_back_off, retry_on } = grpc;
    let empty = num_retries.is_none()
        && per_try_timeout.is_none()
        && back_off.is_none()
        && rate_limited_back_off.is_none()
        && retry_on.is_none();
    problems.require(!empty, at, "must not be empty");
    check_back_offs(back_off.as_ref(), rate_limited_back_off.as_ref(), at, problems);
    retry_on::check_grpc(retry_on.as_deref().unwrap_or_default(), &at.field("retryOn"), problems);
}

fn check_back_offs(
    back_off: Option<&BackOff>,
    rate_limited: Option<&RateLimitedBackOff>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    if let Some(BackOff { base_interval: None, max_interval: None }) = back_off {
        problems.add(&at.field("backOff"), "must not be empty");
    }
    let Some(RateLimitedBackOff { reset_headers, max_interval }) = rate_limited else { return };
    let at = at.field("rateLimitedBackOff");
    let positive = max_interval.is_none_or(|interval| interval > GoDuration::ZERO);
    problems.require(positive, &at.field("maxInterval"), "must be defined and greater than zero");
    let at = at.field("resetHeaders");
    problems.require(reset_headers.is_some(), &at, "must be defined");
    for (n, header) in reset_headers.iter().flatten().enumerate() {
        let at = at.index(n);
        problems.require(!header.name.is_empty(), &at.field("name"), "must be defined");
        if let Some(format) = &header.format {
            format.check(&at, "format", problems);
        }
    }
}

fn check_host_selection(predicates: &[Predicate], at: &FieldPath<'_>, problems: &mut Problems) {
    let mut has_priorities = false;
    for (n, Predicate { predicate, tags, update_frequency }) in predicates.iter().enumerate() {
        let at = at.index(n);
        match predicate.as_ref().and_then(Choice::known) {
            Some(PredicateType::OmitPreviousHosts) => (),
            Some(PredicateType::OmitHostsWithTags) => {
                problems.require(tags.is_some(), &at.field("tags"), "must be defined");
            }
            Some(PredicateType::OmitPreviousPriorities) => {
                let once = !std::mem::replace(&mut has_priorities, true);
                let message = "OmitPreviousPriorities must only be specified once";
                problems.require(once, &at.field("predicate"), message);
                let positive = update_frequency.is_some_and(|tries| tries > 0);
                let message = "must be defined and greater than zero";
                problems.require(positive, &at.field("updateFrequency"), message);
            }
            None => {
                let written = predicate.as_ref().map(Choice::as_str).unwrap_or_default();
                problems.add(&at.field("predicate"), format!("unknown predicate type '{written}'"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document cannot lack both, because the base interval has a default; a stored spec can.
    #[test]
    fn back_off_needs_an_interval() {
        let mut problems = Problems::default();
        let back_off = BackOff { base_interval: None, max_interval: None };
        check_back_offs(Some(&back_off), None, &FieldPath::SPEC, &mut problems);
        assert_eq!(problems.to_string(), "spec.backOff: must not be empty");
    }
}
