//! Generated health checks, and readiness from their results.

use kodiak_envoy::envoy::service::health::v3::{ClusterEndpointsHealth, LocalityEndpointsHealth};
use kodiak_model::{language, yaml};

use super::*;
use crate::testing::{at, check};

/// A Dataplane with this `networking`.
fn dataplane(networking: &str) -> Dataplane {
    let networking = yaml::parse(networking).unwrap().remove(0).value;
    language::decode(&serde_json::json!({ "networking": networking }).to_string()).unwrap()
}

fn node() -> NodeMetadata {
    NodeMetadata { admin_socket: Some("/tmp/admin.sock".to_owned()), ..NodeMetadata::default() }
}

fn specifier_of(networking: &str) -> Option<HealthCheckSpecifier> {
    specifier(&dataplane(networking), &node(), &Timing::default())
}

#[test]
fn envoy_and_every_probed_service_are_checked() {
    let made = specifier_of(
        "{address: 10.0.0.1, inbound: [{port: 80, servicePort: 8080, serviceAddress: 127.0.0.1, serviceProbe: {tcp: {}}}, {port: 81}]}",
    );
    check(
        &made.unwrap(),
        r#"
        interval: 2s
        cluster_health_checks:
        - cluster_name: kuma:envoy:admin
          locality_endpoints: [{endpoints: [{address: {pipe: {path: /tmp/admin.sock}}}]}]
          health_checks:
          - {timeout: 2s, interval: 1s, no_traffic_interval: 1s, healthy_threshold: 1, unhealthy_threshold: 1, http_health_check: {path: /ready}}
        - cluster_name: "localhost:8080"
          locality_endpoints: [{endpoints: [{address: {socket_address: {address: 127.0.0.1, port_value: 8080}}}]}]
          health_checks:
          - {timeout: 2s, interval: 1s, no_traffic_interval: 1s, healthy_threshold: 1, unhealthy_threshold: 1, tcp_health_check: {}}
        "#,
    );
}

#[test]
fn envoy_is_checked_where_nothing_is_probed() {
    let made = specifier_of("{address: 10.0.0.1, inbound: [{port: 80}]}").unwrap();
    let names: Vec<_> = made.cluster_health_checks.iter().map(|check| check.cluster_name.as_str()).collect();
    assert_eq!(names, [names::ADMIN]);
    for inbounds in ["[]", "[{port: 80, state: Ignored, serviceProbe: {}}]"] {
        assert_eq!(specifier_of(&format!("{{address: 10.0.0.1, inbound: {inbounds}}}")), None, "{inbounds}");
    }
    assert_eq!(specifier(&Dataplane::default(), &node(), &Timing::default()), None);
}

#[test]
fn probe_settings_are_applied() {
    let probe = "{interval: 10s, timeout: 0.5s, healthyThreshold: 3, unhealthyThreshold: 4}";
    let made = specifier_of(&format!("{{address: 10.0.0.1, inbound: [{{port: 80, serviceProbe: {probe}}}]}}")).unwrap();
    let expected = "{timeout: 0.5s, interval: 10s, no_traffic_interval: 10s, healthy_threshold: 3, unhealthy_threshold: 4, tcp_health_check: {}}";
    check(&made.cluster_health_checks[1].health_checks[0], expected);
    let tiny = specifier_of("{address: 10.0.0.1, inbound: [{port: 80, serviceProbe: {interval: 1ns}}]}").unwrap();
    assert_eq!(at(&tiny, "/clusterHealthChecks/1/healthChecks/0/interval"), "0.001s", "never without a pause");
}

#[test]
fn services_on_one_port_have_separate_checks() {
    let inbound =
        |address: &str| format!("{{port: 80, serviceAddress: {address}, servicePort: 8080, serviceProbe: {{}}}}");
    let inbounds = ["10.0.0.7", "10.0.0.8", "10.0.0.9"].map(inbound).join(", ");
    let made = specifier_of(&format!("{{address: 10.0.0.1, inbound: [{inbounds}]}}")).unwrap();
    let names: Vec<_> = made.cluster_health_checks.iter().map(|check| check.cluster_name.as_str()).collect();
    assert_eq!(names, ["kuma:envoy:admin", "localhost:8080", "localhost:8080:1", "localhost:8080:2"]);
}

#[test]
fn checks_are_not_redirected_to_the_proxy() {
    for (address, source) in [("10.0.0.1", Some("127.0.0.6")), ("fd00::1", Some("::6")), ("127.0.0.1", None)] {
        let redirecting = "transparentProxying: {redirectPortInbound: 15006, redirectPortOutbound: 15001}";
        let inbound = "{port: 80, serviceProbe: {}}";
        let made = specifier_of(&format!("{{address: '{address}', inbound: [{inbound}], {redirecting}}}")).unwrap();
        let found = at(&made, "/clusterHealthChecks/1/upstreamBindConfig/sourceAddress/address");
        assert_eq!(found.as_str(), source, "{address}");
    }
}

#[test]
fn hostnames_are_not_checked() {
    let made = specifier_of("{address: web.local, inbound: [{port: 80, serviceProbe: {}}]}").unwrap();
    assert_eq!(made.cluster_health_checks.len(), 1);
    assert_eq!(made.cluster_health_checks[0].cluster_name, names::ADMIN);
    let mut dataplane = dataplane("{address: web.local, inbound: [{port: 80, state: NotReady, serviceProbe: {}}]}");
    assert!(findings(&[(names::ADMIN, HealthStatus::Healthy)]).apply(&mut dataplane, true));
    assert!(dataplane.inbounds()[0].is_ready());
}

fn findings(found: &[(&str, HealthStatus)]) -> Findings {
    let cluster = |(name, status): &(&str, HealthStatus)| {
        let endpoint = EndpointHealth { health_status: (*status).into(), ..EndpointHealth::default() };
        let locality =
            LocalityEndpointsHealth { endpoints_health: vec![endpoint], ..LocalityEndpointsHealth::default() };
        ClusterEndpointsHealth { cluster_name: (*name).to_owned(), locality_endpoints_health: vec![locality] }
    };
    let cluster_endpoints_health = found.iter().map(cluster).collect();
    Findings::read(EndpointHealthResponse { cluster_endpoints_health, ..EndpointHealthResponse::default() })
}

/// Inbounds 80 (probed), 81 (probed), 82 (not) and 83 (probed, but ignored), all in this state.
fn before(state: &str) -> Dataplane {
    let inbound = |port: u32, probe: &str, state: &str| format!("{{port: {port}, state: {state}{probe}}}");
    let probe = ", serviceProbe: {}";
    let inbounds =
        [inbound(80, probe, state), inbound(81, probe, state), inbound(82, "", state), inbound(83, probe, "Ignored")];
    dataplane(&format!("{{address: 10.0.0.1, inbound: [{}]}}", inbounds.join(", ")))
}

#[track_caller]
fn applied(state: &str, found: &[(&str, HealthStatus)], expected: [bool; 2]) {
    let mut dataplane = before(state);
    let was_ready = state == "Ready";
    let changed = findings(found).apply(&mut dataplane, true);
    let ready: Vec<_> = dataplane.inbounds().iter().map(Inbound::is_ready).collect();
    assert_eq!(ready, [expected[0], expected[1], was_ready, false]);
    assert_eq!(changed, expected != [was_ready; 2]);
    assert_eq!(dataplane.inbounds()[3].state(), InboundState::Ignored);
    assert!(!findings(found).apply(&mut dataplane, true), "nothing is left to change");
}

#[test]
fn probed_inbounds_follow_their_checks_and_others_do_not() {
    use HealthStatus::{Degraded, Draining, Healthy, Timeout, Unhealthy, Unknown};
    for fine in [Healthy, Unknown, Degraded] {
        applied("NotReady", &[(names::ADMIN, Healthy), ("localhost:80", fine)], [true, false]);
        applied("Ready", &[(names::ADMIN, fine), ("localhost:80", fine), ("localhost:81", fine)], [true, true]);
    }
    for bad in [Unhealthy, Timeout, Draining] {
        applied("Ready", &[(names::ADMIN, Healthy), ("localhost:80", bad), ("localhost:81", Healthy)], [false, true]);
    }
    applied("NotReady", &[("localhost:81", Healthy)], [false, true]);
}

#[test]
fn report_says_whether_envoy_is_live() {
    use HealthStatus::{Degraded, Draining, Healthy, Timeout, Unhealthy, Unknown};
    let is_live = |status| findings(&[(names::ADMIN, status), ("localhost:80", Unhealthy)]).is_live;
    assert_eq!([Healthy, Unknown, Degraded].map(is_live), [Some(true); 3]);
    assert_eq!([Unhealthy, Draining].map(is_live), [Some(false); 2]);
    assert_eq!(is_live(Timeout), None, "a busy Envoy still serves");
    assert_eq!(findings(&[("localhost:80", Healthy)]).is_live, None);
}

#[test]
fn inbounds_without_results_keep_their_state() {
    for state in ["Ready", "NotReady"] {
        applied(state, &[], [state == "Ready"; 2]);
        applied(state, &[("localhost:9", HealthStatus::Unhealthy)], [state == "Ready"; 2]);
    }
    let empty = ClusterEndpointsHealth { cluster_name: names::ADMIN.to_owned(), ..ClusterEndpointsHealth::default() };
    let report = EndpointHealthResponse { cluster_endpoints_health: vec![empty], ..EndpointHealthResponse::default() };
    assert_eq!(Findings::read(report), Findings::default());
}

#[test]
fn inbounds_become_ready_only_when_they_may_serve() {
    let found = findings(&[("localhost:80", HealthStatus::Healthy), ("localhost:81", HealthStatus::Unhealthy)]);
    let mut ready = before("Ready");
    assert!(found.apply(&mut ready, false));
    assert!(ready.inbounds()[0].is_ready() && !ready.inbounds()[1].is_ready());
    assert!(!found.apply(&mut before("NotReady"), false));
}
