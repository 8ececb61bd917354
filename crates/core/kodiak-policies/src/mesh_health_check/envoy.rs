//! Active health checks of clusters.

use std::fmt::Write as _;
use std::time::Duration;

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::common_lb_config::{LocalityConfigSpecifier, ZoneAwareLbConfig};
use kodiak_envoy::envoy::config::core::v3::header_value_option::HeaderAppendAction;
use kodiak_envoy::envoy::config::core::v3::health_check::{
    GrpcHealthCheck as GrpcChecker, HealthChecker, HttpHealthCheck as HttpChecker, Payload,
    TcpHealthCheck as TcpChecker, payload,
};
use kodiak_envoy::envoy::config::core::v3::{HealthCheck, TypedExtensionConfig};
use kodiak_envoy::envoy::extensions::health_check::event_sinks::file::v3::HealthCheckEventFileSink;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::HttpProtocolOptions;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::UpstreamProtocolOptions;
use kodiak_envoy::envoy::extensions::upstreams::http::v3::http_protocol_options::explicit_http_config::ProtocolConfig;
use kodiak_envoy::envoy::r#type::v3::{CodecClientType, Int64Range, Percent};
use kodiak_model::{GoDuration, IntOrString};

use super::{Conf, GrpcHealthCheck, HttpHealthCheck, TcpHealthCheck};
use crate::convert::{duration, header_value};
use crate::header::HeaderAdditions;
use crate::target::{Upstream, UpstreamTraffic};

const INTERVAL: Duration = Duration::from_mins(1);
const TIMEOUT: Duration = Duration::from_secs(15);
const UNHEALTHY_THRESHOLD: u32 = 5;
const HEALTHY_THRESHOLD: u32 = 1;

pub(super) fn cluster(conf: &Conf, upstream: &mut Upstream) {
    panic_mode(conf, &mut upstream.cluster);
    let Some(checker) = checker(conf, upstream) else { return };
    upstream.cluster.health_checks = vec![check(conf, checker)];
    // Otherwise Envoy keeps sending requests to a removed endpoint for as long as its checks succeed.
    upstream.cluster.ignore_health_on_host_removal = true;
}

/// Applies also without a check: outlier detection makes endpoints unhealthy too.
fn panic_mode(conf: &Conf, cluster: &mut Cluster) {
    if let Some(value) = conf.healthy_panic_threshold.as_ref().and_then(IntOrString::decimal) {
        cluster.common_lb_config.get_or_insert_default().healthy_panic_threshold = Some(Percent { value });
    }
    let Some(fail_traffic_on_panic) = conf.fail_traffic_on_panic else { return };
    let common = cluster.common_lb_config.get_or_insert_default();
    let specifier = common
        .locality_config_specifier
        .get_or_insert(LocalityConfigSpecifier::ZoneAwareLbConfig(ZoneAwareLbConfig::default()));
    // Envoy has no such setting for weighted localities.
    if let LocalityConfigSpecifier::ZoneAwareLbConfig(zone_aware) = specifier {
        zone_aware.fail_traffic_on_panic = fail_traffic_on_panic;
    }
}

/// By protocol of the application. A TCP check replaces a disabled one, but not a missing one.
fn checker(conf: &Conf, upstream: &Upstream) -> Option<HealthChecker> {
    let tcp = || Some(tcp(conf.tcp.as_ref().filter(|tcp| tcp.disabled != Some(true))?));
    match upstream.traffic {
        UpstreamTraffic::Http => match conf.http.as_ref()? {
            HttpHealthCheck { disabled: Some(true), .. } => tcp(),
            written => Some(http(written, upstream.http.as_ref())),
        },
        UpstreamTraffic::Grpc => match conf.grpc.as_ref()? {
            GrpcHealthCheck { disabled: Some(true), .. } => tcp(),
            written => Some(grpc(written)),
        },
        UpstreamTraffic::Tcp => tcp(),
    }
}

fn check(conf: &Conf, checker: HealthChecker) -> HealthCheck {
    let positive = |written: Option<i32>| written.and_then(|number| u32::try_from(number).ok());
    let or =
        |written: Option<GoDuration>, default| written.and_then(duration).or(Some(kodiak_envoy::duration(default)));
    HealthCheck {
        interval: or(conf.interval, INTERVAL),
        timeout: or(conf.timeout, TIMEOUT),
        unhealthy_threshold: positive(conf.unhealthy_threshold).or(Some(UNHEALTHY_THRESHOLD)),
        healthy_threshold: positive(conf.healthy_threshold).or(Some(HEALTHY_THRESHOLD)),
        initial_jitter: conf.initial_jitter.and_then(duration),
        interval_jitter: conf.interval_jitter.and_then(duration),
        interval_jitter_percent: positive(conf.interval_jitter_percent).unwrap_or_default(),
        no_traffic_interval: conf.no_traffic_interval.and_then(duration),
        reuse_connection: conf.reuse_connection,
        always_log_health_check_failures: conf.always_log_health_check_failures.unwrap_or_default(),
        event_logger: conf
            .event_log_path
            .as_deref()
            .filter(|path| !path.is_empty())
            .map(event_log)
            .into_iter()
            .collect(),
        health_checker: Some(checker),
        ..HealthCheck::default()
    }
}

fn event_log(path: &str) -> TypedExtensionConfig {
    TypedExtensionConfig {
        name: "envoy.health_check.event_sink.file".to_owned(),
        typed_config: Some(any(&HealthCheckEventFileSink { event_log_path: path.to_owned() })),
    }
}

/// Checks use the HTTP version of requests.
fn http(written: &HttpHealthCheck, options: Option<&HttpProtocolOptions>) -> HealthChecker {
    let HttpHealthCheck { disabled: _, path, request_headers_to_add, expected_statuses } = written;
    let codec = if options.is_some_and(is_http2) { CodecClientType::Http2 } else { CodecClientType::Http1 };
    let statuses = expected_statuses.iter().flatten().map(|status| i64::from(*status));
    let mut made = HttpChecker {
        path: path.clone().unwrap_or_else(|| "/".to_owned()),
        expected_statuses: statuses.map(|start| Int64Range { start, end: start + 1 }).collect(),
        codec_client_type: codec.into(),
        ..HttpChecker::default()
    };
    let HeaderAdditions { set, add } = request_headers_to_add.clone().unwrap_or_default();
    let set = set.iter().flatten().map(|header| (header, HeaderAppendAction::OverwriteIfExistsOrAdd));
    let add = add.iter().flatten().map(|header| (header, HeaderAppendAction::AppendIfExistsOrAdd));
    for (header, action) in set.chain(add) {
        // Envoy rejects a cluster that changes this header, but has a field for it.
        if header.name.eq_ignore_ascii_case("host") {
            made.host.clone_from(&header.value);
        } else {
            made.request_headers_to_add.push(header_value(header, action));
        }
    }
    HealthChecker::HttpHealthCheck(made)
}

fn is_http2(options: &HttpProtocolOptions) -> bool {
    let Some(UpstreamProtocolOptions::ExplicitHttpConfig(explicit)) = &options.upstream_protocol_options else {
        return false;
    };
    matches!(explicit.protocol_config, Some(ProtocolConfig::Http2ProtocolOptions(_)))
}

fn grpc(written: &GrpcHealthCheck) -> HealthChecker {
    let GrpcHealthCheck { disabled: _, service_name, authority } = written;
    HealthChecker::GrpcHealthCheck(GrpcChecker {
        service_name: service_name.clone().unwrap_or_default(),
        authority: authority.clone().unwrap_or_default(),
        ..GrpcChecker::default()
    })
}

/// Envoy rejects empty payloads.
fn tcp(written: &TcpHealthCheck) -> HealthChecker {
    let TcpHealthCheck { disabled: _, send, receive } = written;
    let payload = |text: &String| (!text.is_empty()).then(|| hex(text));
    HealthChecker::TcpHealthCheck(TcpChecker {
        send: send.as_ref().and_then(payload),
        receive: receive.iter().flatten().filter_map(payload).collect(),
        ..TcpChecker::default()
    })
}

fn hex(text: &str) -> Payload {
    let digits = text.bytes().fold(String::new(), |mut digits, byte| {
        write!(digits, "{byte:02x}").expect("writing to a string does not fail");
        digits
    });
    Payload { payload: Some(payload::Payload::Text(digits)) }
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::config::cluster::v3::cluster::CommonLbConfig;
    use kodiak_envoy::envoy::config::cluster::v3::cluster::common_lb_config::LocalityWeightedLbConfig;

    use super::*;
    use crate::Policy as _;
    use crate::mesh_health_check::HealthChecks;
    use crate::samples::{self, conf, upstream};

    /// The check of a cluster whose application has this protocol.
    fn made(text: &str, traffic: UpstreamTraffic) -> Option<HealthCheck> {
        let mut upstream = Upstream { traffic, ..upstream(true) };
        HealthChecks.cluster(&conf(text), &mut upstream);
        let Cluster { health_checks, ignore_health_on_host_removal, .. } = upstream.cluster;
        assert_eq!(ignore_health_on_host_removal, !health_checks.is_empty());
        health_checks.into_iter().next()
    }

    #[test]
    fn unset_fields_have_defaults() {
        samples::check(
            &made("http: {}", UpstreamTraffic::Http).unwrap(),
            "
            interval: 60s
            timeout: 15s
            unhealthy_threshold: 5
            healthy_threshold: 1
            http_health_check: {path: /}
            ",
        );
    }

    #[test]
    fn sets_all_fields() {
        let text = "
            interval: 10s
            timeout: 2s
            unhealthyThreshold: 3
            healthyThreshold: 2
            initialJitter: 1s
            intervalJitter: 500ms
            intervalJitterPercent: 10
            eventLogPath: /tmp/checks.log
            alwaysLogHealthCheckFailures: true
            noTrafficInterval: 5s
            reuseConnection: false
            http:
              path: /health
              expectedStatuses: [200, 204]
              requestHeadersToAdd:
                set: [{name: x-probe, value: 100%}, {name: Host, value: backend.mesh}]
                add: [{name: x-more, value: b}]
        ";
        samples::check(
            &made(text, UpstreamTraffic::Http).unwrap(),
            r#"
            interval: 10s
            timeout: 2s
            unhealthy_threshold: 3
            healthy_threshold: 2
            initial_jitter: 1s
            interval_jitter: 0.5s
            interval_jitter_percent: 10
            no_traffic_interval: 5s
            reuse_connection: false
            always_log_health_check_failures: true
            event_logger:
            - name: envoy.health_check.event_sink.file
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.health_check.event_sinks.file.v3.HealthCheckEventFileSink
                event_log_path: /tmp/checks.log
            http_health_check:
              host: backend.mesh
              path: /health
              expected_statuses: [{start: 200, end: 201}, {start: 204, end: 205}]
              request_headers_to_add:
              - {header: {key: x-probe, value: 100%%}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
              - {header: {key: x-more, value: b}}
            "#,
        );
    }

    #[test]
    fn protocol_of_the_application_selects_the_check() {
        let kind = |text: &str, traffic| {
            made(text, traffic).and_then(|check| check.health_checker).map(|checker| match checker {
                HealthChecker::HttpHealthCheck(_) => "http",
                HealthChecker::GrpcHealthCheck(_) => "grpc",
                HealthChecker::TcpHealthCheck(_) => "tcp",
                HealthChecker::CustomHealthCheck(_) => "custom",
            })
        };
        let cases = [
            ("{http: {}, grpc: {}, tcp: {}}", [Some("http"), Some("grpc"), Some("tcp")]),
            ("{http: {disabled: true}, grpc: {disabled: true}, tcp: {}}", [Some("tcp"); 3]),
            ("{http: {disabled: true}, tcp: {disabled: true}}", [None; 3]),
            ("{tcp: {}}", [None, None, Some("tcp")]),
            ("{http: {}}", [Some("http"), None, None]),
        ];
        for (text, expected) in cases {
            let all = [UpstreamTraffic::Http, UpstreamTraffic::Grpc, UpstreamTraffic::Tcp];
            assert_eq!(all.map(|traffic| kind(text, traffic)), expected, "{text}");
        }
    }

    #[test]
    fn tcp_payloads_are_hexadecimal() {
        let made = made("tcp: {send: PING, receive: [PO, '', NG]}", UpstreamTraffic::Tcp).unwrap();
        let Some(HealthChecker::TcpHealthCheck(tcp)) = made.health_checker else { panic!("not TCP") };
        samples::check(&tcp, "{send: {text: '50494e47'}, receive: [{text: '504f'}, {text: '4e47'}]}");
    }

    #[test]
    fn grpc_names_a_service() {
        let made = made("grpc: {serviceName: shop.Cart, authority: cart}", UpstreamTraffic::Grpc).unwrap();
        let Some(HealthChecker::GrpcHealthCheck(grpc)) = made.health_checker else { panic!("not gRPC") };
        samples::check(&grpc, "{service_name: shop.Cart, authority: cart}");
    }

    #[test]
    fn panic_settings_apply_without_a_check() {
        let text = "{healthyPanicThreshold: '62.5', failTrafficOnPanic: true, tcp: {disabled: true}}";
        let changed = samples::cluster(&HealthChecks, text).cluster;
        assert_eq!(changed.health_checks, []);
        samples::check(
            &changed.common_lb_config.unwrap(),
            "{healthy_panic_threshold: {value: 62.5}, zone_aware_lb_config: {fail_traffic_on_panic: true}}",
        );
    }

    #[test]
    fn weighted_localities_are_kept() {
        let weighted = LocalityConfigSpecifier::LocalityWeightedLbConfig(LocalityWeightedLbConfig {});
        let before = CommonLbConfig { locality_config_specifier: Some(weighted), ..CommonLbConfig::default() };
        let mut changed = upstream(true);
        changed.cluster.common_lb_config = Some(before.clone());
        HealthChecks.cluster(&conf("{failTrafficOnPanic: true, http: {}}"), &mut changed);
        assert_eq!(changed.cluster.common_lb_config, Some(before));
    }
}
