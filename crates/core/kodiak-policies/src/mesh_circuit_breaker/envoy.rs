//! Circuit breakers and outlier detection of clusters.

use kodiak_envoy::envoy::config::cluster::v3::circuit_breakers::Thresholds;
use kodiak_envoy::envoy::config::cluster::v3::{Cluster, OutlierDetection as Outliers};
use kodiak_envoy::envoy::config::core::v3::RoutingPriority;
use kodiak_envoy::envoy::r#type::v3::Percent;
use kodiak_model::IntOrString;

use super::{Conf, ConnectionLimits, ConsecutiveFailures, Detectors, OutlierDetection};
use crate::Entry;
use crate::convert::{duration, set};
use crate::policy::for_everybody;
use crate::target::{Inbound, Upstream};

pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    cluster(&for_everybody(entries).read(), &mut inbound.workload);
}

pub(super) fn cluster(conf: &Conf, upstream: &mut Upstream) {
    let Conf { connection_limits, outlier_detection } = conf;
    if let Some(written) = connection_limits {
        limits(written, &mut upstream.cluster);
    }
    if let Some(written) = outlier_detection.as_ref().filter(|written| written.disabled != Some(true)) {
        upstream.cluster.outlier_detection = Some(outliers(written));
        if let Some(value) = written.healthy_panic_threshold.as_ref().and_then(IntOrString::decimal) {
            let common = upstream.cluster.common_lb_config.get_or_insert_default();
            common.healthy_panic_threshold = Some(Percent { value });
        }
    }
}

/// Sets the limits of the default-priority threshold.
fn limits(written: &ConnectionLimits, cluster: &mut Cluster) {
    let all = &mut cluster.circuit_breakers.get_or_insert_default().thresholds;
    let priority = i32::from(RoutingPriority::Default);
    if !all.iter().any(|threshold| threshold.priority == priority) {
        all.push(Thresholds::default());
    }
    let ConnectionLimits { max_connections, max_connection_pools, max_pending_requests, max_retries, max_requests } =
        written;
    for threshold in all.iter_mut().filter(|threshold| threshold.priority == priority) {
        set(&mut threshold.max_connections, *max_connections);
        set(&mut threshold.max_connection_pools, *max_connection_pools);
        set(&mut threshold.max_pending_requests, *max_pending_requests);
        set(&mut threshold.max_retries, *max_retries);
        set(&mut threshold.max_requests, *max_requests);
    }
}

/// Some of Envoy's detectors are enabled by default: those that the policy does not mention are disabled.
fn outliers(written: &OutlierDetection) -> Outliers {
    let detectors = written.detectors.clone().unwrap_or_default();
    let Detectors { total_failures, gateway_failures, local_origin_failures, success_rate, failure_percentage } =
        &detectors;
    let in_a_row = |failures: &Option<ConsecutiveFailures>| failures.as_ref().and_then(|one| one.consecutive);
    let enforced = |is_on: bool| Some(if is_on { 100 } else { 0 });
    let (rate, share) = (success_rate.clone().unwrap_or_default(), failure_percentage.clone().unwrap_or_default());
    Outliers {
        interval: written.interval.and_then(duration),
        base_ejection_time: written.base_ejection_time.and_then(duration),
        max_ejection_percent: written.max_ejection_percent,
        split_external_local_origin_errors: written.split_external_and_local_errors.unwrap_or_default(),
        consecutive_5xx: in_a_row(total_failures),
        enforcing_consecutive_5xx: enforced(total_failures.is_some()),
        consecutive_gateway_failure: in_a_row(gateway_failures),
        enforcing_consecutive_gateway_failure: enforced(gateway_failures.is_some()),
        consecutive_local_origin_failure: in_a_row(local_origin_failures),
        enforcing_consecutive_local_origin_failure: enforced(local_origin_failures.is_some()),
        success_rate_minimum_hosts: rate.minimum_hosts,
        success_rate_request_volume: rate.request_volume,
        success_rate_stdev_factor: rate.standard_deviation_factor.as_ref().and_then(thousandths),
        enforcing_success_rate: enforced(success_rate.is_some()),
        enforcing_local_origin_success_rate: enforced(success_rate.is_some()),
        failure_percentage_minimum_hosts: share.minimum_hosts,
        failure_percentage_request_volume: share.request_volume,
        failure_percentage_threshold: share.threshold,
        enforcing_failure_percentage: enforced(failure_percentage.is_some()),
        enforcing_failure_percentage_local_origin: enforced(failure_percentage.is_some()),
        ..Outliers::default()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast stops at the bounds")]
fn thousandths(factor: &IntOrString) -> Option<u32> {
    factor.decimal().map(|factor| (factor * 1000.0).round() as u32)
}

#[cfg(test)]
mod tests {
    use crate::mesh_circuit_breaker::CircuitBreakers;
    use crate::samples::{check, cluster, from, inbound, rule, tcp, upstream};

    #[test]
    fn limits_keep_other_threshold_fields() {
        let limited = cluster(&CircuitBreakers, "connectionLimits: {maxConnections: 10, maxRetries: 1}");
        check(
            &limited.cluster.circuit_breakers.unwrap(),
            "thresholds: [{track_remaining: true, max_connections: 10, max_retries: 1}]",
        );
        assert_eq!(limited.cluster.outlier_detection, None);
    }

    #[test]
    fn a_cluster_without_a_threshold_gets_one() {
        let mut bare = upstream(false);
        bare.cluster.circuit_breakers = None;
        super::limits(&super::ConnectionLimits { max_requests: Some(3), ..<_>::default() }, &mut bare.cluster);
        check(&bare.cluster.circuit_breakers.unwrap(), "thresholds: [{max_requests: 3}]");
    }

    #[test]
    fn unset_detectors_are_disabled() {
        let limited = cluster(
            &CircuitBreakers,
            "
            outlierDetection:
              interval: 5s
              baseEjectionTime: 30s
              maxEjectionPercent: 20
              detectors:
                totalFailures: {consecutive: 10}
                successRate: {minimumHosts: 5, requestVolume: 10, standardDeviationFactor: '1.9'}
            ",
        );
        check(
            &limited.cluster.outlier_detection.unwrap(),
            "
            interval: 5s
            base_ejection_time: 30s
            max_ejection_percent: 20
            consecutive_5xx: 10
            enforcing_consecutive_5xx: 100
            enforcing_consecutive_gateway_failure: 0
            enforcing_consecutive_local_origin_failure: 0
            success_rate_minimum_hosts: 5
            success_rate_request_volume: 10
            success_rate_stdev_factor: 1900
            enforcing_success_rate: 100
            enforcing_local_origin_success_rate: 100
            enforcing_failure_percentage: 0
            enforcing_failure_percentage_local_origin: 0
            ",
        );
        assert_eq!(limited.cluster.common_lb_config, None);
    }

    #[test]
    fn sets_all_detectors() {
        let limited = cluster(
            &CircuitBreakers,
            "
            outlierDetection:
              splitExternalAndLocalErrors: true
              healthyPanicThreshold: '62.5'
              detectors:
                totalFailures: {}
                gatewayFailures: {consecutive: 3}
                localOriginFailures: {consecutive: 4}
                successRate: {}
                failurePercentage: {minimumHosts: 6, requestVolume: 7, threshold: 85}
            ",
        );
        check(
            &limited.cluster.outlier_detection.unwrap(),
            "
            split_external_local_origin_errors: true
            enforcing_consecutive_5xx: 100
            consecutive_gateway_failure: 3
            enforcing_consecutive_gateway_failure: 100
            consecutive_local_origin_failure: 4
            enforcing_consecutive_local_origin_failure: 100
            enforcing_success_rate: 100
            enforcing_local_origin_success_rate: 100
            failure_percentage_minimum_hosts: 6
            failure_percentage_request_volume: 7
            failure_percentage_threshold: 85
            enforcing_failure_percentage: 100
            enforcing_failure_percentage_local_origin: 100
            ",
        );
        check(&limited.cluster.common_lb_config.unwrap(), "healthy_panic_threshold: {value: 62.5}");
    }

    #[test]
    fn disabled_sections_have_no_effect() {
        let text = "outlierDetection: {disabled: true, healthyPanicThreshold: 0, detectors: {totalFailures: {}}}";
        assert_eq!(cluster(&CircuitBreakers, text), upstream(true));
    }

    #[test]
    fn inbound_limits_merge_all_items() {
        let entries = [
            from("connectionLimits: {maxConnections: 1, maxRequests: 2}"),
            rule("[]", "connectionLimits: {maxConnections: 3}"),
        ];
        let served = inbound(&CircuitBreakers, &entries, &tcp());
        check(
            &served.workload.cluster.circuit_breakers.unwrap(),
            "thresholds: [{track_remaining: true, max_connections: 3, max_requests: 2}]",
        );
        assert_eq!(inbound(&CircuitBreakers, &[], &tcp()).workload, upstream(false));
    }
}
