//! Validation of MeshCircuitBreaker.

use kodiak_model::{FieldPath, IntOrString, Problems, TargetKind, TargetRules};

use super::{
    Conf, ConnectionLimits, ConsecutiveFailures, Detectors, FailurePercentage, MeshCircuitBreaker, OutlierDetection,
    SuccessRate,
};
use crate::{from_to, percentage, positive, top_level};

const TO: &[TargetKind] =
    &[TargetKind::Mesh, TargetKind::MeshService, TargetKind::MeshExternalService, TargetKind::MeshMultiZoneService];

pub(super) fn check(spec: &MeshCircuitBreaker, problems: &mut Problems) {
    let at = FieldPath::SPEC;
    let MeshCircuitBreaker { target_ref, to, from, rules } = spec;
    let (has_to, has_from) = (from_to::is_used(to.as_ref()), from_to::is_used(from.as_ref()));
    let has_rules = from_to::is_used(rules.as_ref());
    if let Some(target) = target_ref {
        let kinds = top_level::PROXIES_AND_GATEWAYS;
        let rules = TargetRules { kinds, gateway_tags: true, inbounds: has_from || has_rules };
        target.check(rules, &at.field("targetRef"), problems);
    }
    if has_rules && (has_to || has_from) {
        problems.add(&at, "fields 'to' and 'from' must be empty when 'rules' is defined");
    }
    if !has_to && !has_from && !has_rules {
        problems.add(&at, "at least one of 'from', 'to' or 'rules' has to be defined");
    }
    from_to::check_items(to.as_ref(), TargetRules::kinds(TO), &at.field("to"), problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    let from_mesh = TargetRules::kinds(&[TargetKind::Mesh]);
    let at_from = at.field("from");
    from_to::check_items(from.as_ref(), from_mesh, &at_from, problems, |item, at, problems| {
        check_conf(&item.default, at, problems);
    });
    // Kuma reports the problems of rules under `from`.
    for (n, rule) in rules.iter().flatten().enumerate() {
        check_conf(&rule.default, &at_from.index(n).field("default"), problems);
    }
}

fn check_conf(conf: &Conf, at: &FieldPath<'_>, problems: &mut Problems) {
    let Conf { connection_limits, outlier_detection } = conf;
    if connection_limits.is_none() && outlier_detection.is_none() {
        problems.add(at, "at least one of: 'connectionLimits' or 'outlierDetection' should be configured");
    }
    if let Some(limits) = connection_limits {
        check_limits(limits, &at.field("connectionLimits"), problems);
    }
    if let Some(detection) = outlier_detection {
        check_outlier_detection(detection, &at.field("outlierDetection"), problems);
    }
}

fn check_limits(limits: &ConnectionLimits, at: &FieldPath<'_>, problems: &mut Problems) {
    let ConnectionLimits { max_connections, max_connection_pools, max_pending_requests, max_retries, max_requests } =
        limits;
    positive::check_count(*max_connections, &at.field("maxConnections"), problems);
    positive::check_count(*max_connection_pools, &at.field("maxConnectionPools"), problems);
    positive::check_count(*max_pending_requests, &at.field("maxPendingRequests"), problems);
    positive::check_count(*max_retries, &at.field("maxRetries"), problems);
    positive::check_count(*max_requests, &at.field("maxRequests"), problems);
}

fn check_outlier_detection(detection: &OutlierDetection, at: &FieldPath<'_>, problems: &mut Problems) {
    let OutlierDetection {
        disabled: _,
        interval,
        base_ejection_time,
        max_ejection_percent,
        split_external_and_local_errors: _,
        detectors,
        healthy_panic_threshold,
    } = detection;
    positive::check_duration(*interval, &at.field("interval"), problems);
    positive::check_duration(*base_ejection_time, &at.field("baseEjectionTime"), problems);
    check_percent(*max_ejection_percent, &at.field("maxEjectionPercent"), problems);
    percentage::check_optional(healthy_panic_threshold.as_ref(), &at.field("healthyPanicThreshold"), problems);
    let at = at.field("detectors");
    match detectors {
        None => problems.add(&at, "must be defined"),
        Some(detectors) => check_detectors(detectors, &at, problems),
    }
}

fn check_detectors(detectors: &Detectors, at: &FieldPath<'_>, problems: &mut Problems) {
    let Detectors { total_failures, gateway_failures, local_origin_failures, success_rate, failure_percentage } =
        detectors;
    let in_a_row = [
        ("totalFailures", total_failures),
        ("gatewayFailures", gateway_failures),
        ("localOriginFailures", local_origin_failures),
    ];
    if in_a_row.iter().all(|(_, detector)| detector.is_none()) && success_rate.is_none() && failure_percentage.is_none()
    {
        problems.add(
            at,
            "must have at least one defined: totalFailures, gatewayFailures, localOriginFailures, successRate, failurePercentage",
        );
    }
    for (field, detector) in in_a_row {
        if let Some(ConsecutiveFailures { consecutive }) = detector {
            positive::check_count(*consecutive, &at.field(field).field("consecutive"), problems);
        }
    }
    if let Some(detector) = success_rate {
        check_success_rate(detector, &at.field("successRate"), problems);
    }
    if let Some(FailurePercentage { minimum_hosts, request_volume, threshold }) = failure_percentage {
        let at = at.field("failurePercentage");
        positive::check_count(*minimum_hosts, &at.field("minimumHosts"), problems);
        positive::check_count(*request_volume, &at.field("requestVolume"), problems);
        check_percent(*threshold, &at.field("threshold"), problems);
    }
}

fn check_success_rate(detector: &SuccessRate, at: &FieldPath<'_>, problems: &mut Problems) {
    let SuccessRate { minimum_hosts, request_volume, standard_deviation_factor } = detector;
    positive::check_count(*minimum_hosts, &at.field("minimumHosts"), problems);
    positive::check_count(*request_volume, &at.field("requestVolume"), problems);
    let at = at.field("standardDeviationFactor");
    match standard_deviation_factor.as_ref().map(IntOrString::decimal) {
        None => (),
        Some(None) => problems.add(&at, "invalid number"),
        Some(Some(factor)) => problems.require(factor > 0.0, &at, "must be greater than 0"),
    }
}

fn check_percent(percent: Option<u32>, at: &FieldPath<'_>, problems: &mut Problems) {
    problems.require(percent.is_none_or(|percent| percent <= 100), at, "must be in inclusive range [0, 100]");
}
