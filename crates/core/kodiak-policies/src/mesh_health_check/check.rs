//! Validation of MeshHealthCheck.

use kodiak_model::{FieldPath, Problems, TargetKind, TargetRules};

use super::{Conf, HttpHealthCheck, MeshHealthCheck};
use crate::{file_path, from_to, percentage, positive, top_level};

const TO: &[TargetKind] =
    &[TargetKind::Mesh, TargetKind::MeshService, TargetKind::MeshExternalService, TargetKind::MeshMultiZoneService];

pub(super) fn check(spec: &MeshHealthCheck, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshHealthCheck { target_ref, to } = spec;
    if let Some(target) = target_ref {
        let rules = TargetRules { kinds: top_level::PROXIES_AND_GATEWAYS, gateway_tags: true, inbounds: false };
        target.check(rules, &at.field("targetRef"), problems);
    }
    from_to::check_items(to.as_ref(), TargetRules::kinds(TO), &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf {
        interval,
        timeout,
        unhealthy_threshold,
        healthy_threshold,
        initial_jitter,
        interval_jitter,
        interval_jitter_percent,
        healthy_panic_threshold,
        fail_traffic_on_panic: _,
        event_log_path,
        always_log_health_check_failures: _,
        no_traffic_interval,
        tcp,
        http,
        grpc,
        reuse_connection: _,
    } = conf;
    positive::check_duration(*interval, &at.field("interval"), problems);
    positive::check_duration(*timeout, &at.field("timeout"), problems);
    positive::check_signed(*unhealthy_threshold, &at.field("unhealthyThreshold"), problems);
    positive::check_signed(*healthy_threshold, &at.field("healthyThreshold"), problems);
    positive::check_duration(*initial_jitter, &at.field("initialJitter"), problems);
    positive::check_duration(*interval_jitter, &at.field("intervalJitter"), problems);
    let in_range = interval_jitter_percent.is_none_or(|percent| (0..=100).contains(&percent));
    problems.require(in_range, &at.field("intervalJitterPercent"), "must be in inclusive range [0, 100]");
    percentage::check_optional(healthy_panic_threshold.as_ref(), &at.field("healthyPanicThreshold"), problems);
    positive::check_duration(*no_traffic_interval, &at.field("noTrafficInterval"), problems);
    let is_path = event_log_path.as_deref().is_none_or(file_path::is_file_path);
    problems.require(is_path, &at.field("eventLogPath"), "must be a valid path when defined");
    if let Some(http) = http {
        check_http(http, &at.field("http"), problems);
    }
    if http.is_none() && tcp.is_none() && grpc.is_none() {
        problems.add(at, "must have at least one defined: http, tcp, grpc");
    }
}

fn check_http(http: &HttpHealthCheck, at: &FieldPath<'_>, problems: &mut Problems) {
    let HttpHealthCheck { disabled: _, path, request_headers_to_add: _, expected_statuses } = http;
    problems.require(path.as_deref() != Some(""), &at.field("path"), "must be defined");
    let at = at.field("expectedStatuses");
    for (n, status) in expected_statuses.iter().flatten().enumerate() {
        problems.require((100..600).contains(status), &at.index(n), "must be in inclusive range [100, 599]");
    }
}
