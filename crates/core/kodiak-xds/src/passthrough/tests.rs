//! Redirected connections, and those that a MeshPassthrough matches.

use std::sync::Arc;

use kodiak_model::Cidr;
use kodiak_policies::passthrough::{IpRange, OutsideDestination, PassthroughMatch, PassthroughProtocol};
use serde_json::{Value, json};

use super::*;
use crate::check::Links;
use crate::testing::{at, check};
use crate::trimmed::Client;

fn passthrough() -> Passthrough {
    Passthrough {
        inbound_port: 15006,
        outbound_port: 15001,
        ipv6: false,
        reuse_port: true,
        outside: OutsideTraffic::Allowed,
        inbound_ports: Some(vec![80]),
        trimmed: None,
        mesh: "default".into(),
        confs: Arc::default(),
        facts: Arc::default(),
    }
}

#[test]
fn redirected_ports_are_bound() {
    let listeners = listeners(&passthrough());
    assert_eq!(listeners.len(), 2);
    check(
        &listeners[0],
        r#"
        name: inbound:passthrough:ipv4
        traffic_direction: INBOUND
        enable_reuse_port: true
        use_original_dst: true
        address: {socket_address: {address: 0.0.0.0, port_value: 15006}}
        filter_chains:
        - filter_chain_match: {destination_port: 80}
          filters:
          - name: envoy.filters.network.tcp_proxy
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
              stat_prefix: inbound_passthrough_ipv4
              cluster: inbound:passthrough:ipv4
        "#,
    );
    check(
        &listeners[1],
        r#"
        name: outbound:passthrough:ipv4
        traffic_direction: OUTBOUND
        use_original_dst: true
        address: {socket_address: {address: 0.0.0.0, port_value: 15001}}
        filter_chains:
        - filters:
          - name: envoy.filters.network.tcp_proxy
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
              stat_prefix: outbound_passthrough_ipv4
              cluster: outbound:passthrough:ipv4
        "#,
    );
}

#[test]
fn disallowed_traffic_has_no_endpoints() {
    let closed = Passthrough { outside: OutsideTraffic::RefusedByMesh, inbound_ports: Some(vec![]), ..passthrough() };
    for listener in listeners(&closed) {
        let path = "/filterChains/0/filters/0/typedConfig/cluster";
        assert_eq!(at(&listener, path), names::NO_DESTINATION, "{}", listener.name);
    }
    let names: Vec<_> = clusters(&closed).into_iter().map(|cluster| cluster.name).collect();
    assert_eq!(names, [names::NO_DESTINATION, names::INBOUND_PASSTHROUGH_IPV4]);
}

#[test]
fn virtual_addresses_without_a_listener_have_a_chain_of_their_own() {
    let ranges: [Cidr; 1] = ["240.0.0.0/4".parse().unwrap()];
    let trimmed = Passthrough {
        trimmed: Some(Client { name: "web-1".into(), ranges: ranges.into() }),
        ipv6: true,
        ..passthrough()
    };
    let listeners = listeners(&trimmed);
    let chains = |name: &str| {
        let listener = listeners.iter().find(|listener| listener.name == name).unwrap();
        assert_eq!(Links::of_listener(listener).faults, [""; 0]);
        let count = listener.filter_chains.len();
        (count, at(listener, "/filterChains/0/filterChainMatch/prefixRanges/0/addressPrefix"))
    };
    assert_eq!(chains(names::OUTBOUND_PASSTHROUGH_IPV4), (2, json!("240.0.0.0")));
    assert_eq!(chains(names::OUTBOUND_PASSTHROUGH_IPV6), (1, Value::Null));
    assert_eq!(chains(names::INBOUND_PASSTHROUGH_IPV4), (1, Value::Null));
}

#[test]
fn all_ports_pass_without_a_list_and_both_ip_families() {
    let open = Passthrough { inbound_ports: None, ipv6: true, ..passthrough() };
    let listeners = listeners(&open);
    assert_eq!(at(&listeners[0], "/filterChains/0/filterChainMatch"), Value::Null);
    assert_eq!(at(&listeners[2], "/address/socketAddress"), json!({"address": "::", "portValue": 15006}));
    let only_out = Passthrough { inbound_port: 0, ..passthrough() };
    assert_eq!(super::listeners(&only_out).len(), 1);
    let clusters = clusters(&open);
    assert_eq!(clusters.len(), 5);
    check(
        &clusters[3],
        r#"
        name: inbound:passthrough:ipv6
        alt_stat_name: inbound_passthrough_ipv6
        type: ORIGINAL_DST
        lb_policy: CLUSTER_PROVIDED
        connect_timeout: 5s
        circuit_breakers: {thresholds: [{track_remaining: true}]}
        upstream_bind_config: {source_address: {address: "::6", port_value: 0}}
        "#,
    );
}

/// A match as `protocol value port`, without the port for all ports.
fn matched(text: &str) -> PassthroughMatch {
    let mut words = text.split(' ');
    let (protocol, value) = (words.next().unwrap(), words.next().unwrap());
    let protocol = match protocol {
        "tcp" => PassthroughProtocol::Tcp,
        "mysql" => PassthroughProtocol::Mysql,
        "tls" => PassthroughProtocol::Tls,
        "http" => PassthroughProtocol::Http,
        "http2" => PassthroughProtocol::Http2,
        "grpc" => PassthroughProtocol::Grpc,
        other => panic!("{other}"),
    };
    let destination = match IpRange::parse(value) {
        Some(range) => OutsideDestination::Range(range),
        None if value == "*" => OutsideDestination::AnyDomain,
        None => OutsideDestination::Domain(value.into()),
    };
    PassthroughMatch {
        destination,
        port: words.next().map(|port| port.parse().unwrap()),
        protocol,
        value: value.into(),
    }
}

fn matching(matches: &[&str]) -> Passthrough {
    let mut matches: Vec<_> = matches.iter().map(|text| matched(text)).collect();
    matches.sort();
    Passthrough { outside: OutsideTraffic::Matched(matches.into()), inbound_port: 0, ..passthrough() }
}

/// Each chain as `name: criteria`.
fn chains(listener: &Listener) -> Vec<String> {
    assert_eq!(Links::of_listener(listener).faults, [""; 0]);
    let shown = |chain: &FilterChain| {
        let FilterChainMatch {
            destination_port,
            prefix_ranges,
            server_names,
            transport_protocol,
            application_protocols,
            ..
        } = chain.filter_chain_match.clone().unwrap_or_default();
        let port = destination_port.map_or_else(|| "*".to_owned(), |port| port.to_string());
        let ranges =
            prefix_ranges.iter().map(|range| format!("{}/{}", range.address_prefix, range.prefix_len.unwrap()));
        let rest = [server_names.join(","), transport_protocol, application_protocols.join(",")];
        let criteria: Vec<_> = [port].into_iter().chain(ranges).chain(rest).filter(|text| !text.is_empty()).collect();
        format!("{}: {}", chain.name, criteria.join(" "))
    };
    listener.filter_chains.iter().map(shown).collect()
}

#[test]
fn refusing_policy_closes_connections_and_logs_the_reason() {
    let refused = Passthrough { outside: OutsideTraffic::RefusedByPolicy, inbound_port: 0, ..passthrough() };
    check(
        &listeners(&refused)[0],
        r#"
        name: outbound:passthrough:ipv4
        traffic_direction: OUTBOUND
        use_original_dst: true
        address: {socket_address: {address: 0.0.0.0, port_value: 15001}}
        default_filter_chain:
          name: meshpassthrough_refused
          filters:
          - name: envoy.filters.network.tcp_proxy
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy
              stat_prefix: meshpassthrough_refused
              cluster: self_transparentproxy_no_destination_inbound
              access_log:
              - name: envoy.access_loggers.stderr
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog
                  log_format:
                    text_format_source:
                      inline_string: "passthrough refused: %DOWNSTREAM_LOCAL_ADDRESS% sni=%REQUESTED_SERVER_NAME%: MeshPassthrough has mode None\n"
        "#,
    );
    let names: Vec<_> = clusters(&refused).into_iter().map(|cluster| cluster.name).collect();
    assert_eq!(names, [names::NO_DESTINATION, names::INBOUND_PASSTHROUGH_IPV4]);
}

#[test]
fn connections_are_not_inspected_without_tls_and_http() {
    let listener = listeners(&matching(&["tcp 10.0.0.0/8", "tcp 10.1.0.0/16 5432", "mysql 10.2.0.1 3306"])).remove(0);
    assert_eq!(
        chains(&listener),
        [
            "meshpassthrough_tcp_10.0.0.0/8_*: * 10.0.0.0/8",
            "meshpassthrough_tcp_10.0.0.0/8_*: 3306 10.0.0.0/8",
            "meshpassthrough_mysql_10.2.0.1_3306: 3306 10.2.0.1/32",
            "meshpassthrough_tcp_10.0.0.0/8_*: 5432 10.0.0.0/8",
            "meshpassthrough_tcp_10.1.0.0/16_5432: 5432 10.1.0.0/16",
        ]
    );
    assert_eq!(listener.listener_filters, []);
    assert_eq!(listener.listener_filters_timeout, None);
    assert!(!listener.continue_on_listener_filters_timeout);
}

#[test]
fn tls_is_matched_by_sni_at_the_port() {
    let listener = listeners(&matching(&["tls api.example.com 443", "tls *.example.com 443", "tls 10.0.0.1 443"]));
    assert_eq!(
        chains(&listener[0]),
        [
            "meshpassthrough_tls_*.example.com_443: 443 10.0.0.1/32 *.example.com tls",
            "meshpassthrough_tls_api.example.com_443: 443 10.0.0.1/32 api.example.com tls",
            "meshpassthrough_tls_10.0.0.1_443: 443 10.0.0.1/32 tls",
            "meshpassthrough_http_443: 443 10.0.0.1/32 raw_buffer http/1.0,http/1.1,h2c",
            "meshpassthrough_tls_*.example.com_443: 443 *.example.com tls",
            "meshpassthrough_tls_api.example.com_443: 443 api.example.com tls",
            "meshpassthrough_http_443: 443 raw_buffer http/1.0,http/1.1,h2c",
        ]
    );
    check(
        &listener[0].listener_filters[1],
        r#"
        name: envoy.filters.listener.tls_inspector
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector}
        filter_disabled: {not_match: {destination_port_range: {start: 443, end: 444}}}
        "#,
    );
    let names: Vec<_> = listener[0].listener_filters.iter().map(|filter| filter.name.as_str()).collect();
    let expected = ["original_dst", "tls_inspector", "http_inspector"];
    assert_eq!(names, expected.map(|name| format!("envoy.filters.listener.{name}")));
    assert!(listener[0].continue_on_listener_filters_timeout);
}

#[test]
fn requests_are_matched_by_host_and_others_get_403() {
    let listener = listeners(&matching(&["http example.com 80"])).remove(0);
    assert_eq!(chains(&listener), ["meshpassthrough_http_80: 80 raw_buffer http/1.0,http/1.1,h2c"]);
    check(
        &listener.filter_chains[0].filters[0],
        r#"
        name: envoy.filters.network.http_connection_manager
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: meshpassthrough_http_80
          common_http_protocol_options: {idle_timeout: 0s}
          http_protocol_options: {accept_http_10: true}
          request_headers_timeout: 0s
          internal_address_config:
            cidr_ranges:
            - {address_prefix: 10.0.0.0, prefix_len: 8}
            - {address_prefix: 192.168.0.0, prefix_len: 16}
            - {address_prefix: 172.16.0.0, prefix_len: 12}
            - {address_prefix: 127.0.0.1, prefix_len: 32}
          upgrade_configs: [{upgrade_type: websocket}]
          access_log:
          - name: envoy.access_loggers.stderr
            filter: {response_flag_filter: {flags: [NR]}}
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StderrAccessLog
              log_format:
                text_format_source:
                  inline_string: "passthrough refused: %DOWNSTREAM_LOCAL_ADDRESS% host=%REQ(:AUTHORITY)%: no MeshPassthrough match (mode Matched)\n"
          local_reply_config:
            mappers:
            - filter: {response_flag_filter: {flags: [NR]}}
              status_code: 403
              headers_to_add:
              - {header: {key: x-kodiak-reason, value: passthrough}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}
              body_format_override:
                text_format_source:
                  inline_string: "This proxy refuses requests to %DOWNSTREAM_LOCAL_ADDRESS% (host: %REQ(:AUTHORITY)%): it is outside the mesh, and no MeshPassthrough of this proxy matches it. To allow it, add it to appendMatch of a MeshPassthrough."
          route_config:
            name: meshpassthrough_http_80
            validate_clusters: false
            ignore_port_in_host_matching: true
            virtual_hosts:
            - name: meshpassthrough_http_example.com_80
              domains: [example.com]
              routes:
              - match: {prefix: /}
                route: {cluster: meshpassthrough_http_example.com_80, timeout: 0s, idle_timeout: 3600s}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
        "#,
    );
    let http = clusters(&matching(&["grpc example.com 80"])).remove(2);
    assert_eq!(at(&http, "/name"), "meshpassthrough_grpc_example.com_80");
    assert_eq!(at(&http, "/type"), "ORIGINAL_DST");
    let options = at(&http, "/typedExtensionProtocolOptions");
    let version = &options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["explicitHttpConfig"];
    assert_eq!(*version, json!({ "http2ProtocolOptions": {} }));
}

#[test]
fn broader_matches_are_repeated_at_each_port_and_range() {
    let listener = listeners(&matching(&["tls example.com", "tcp 10.0.0.0/8 443", "http 10.1.0.0/16 443"])).remove(0);
    assert_eq!(
        chains(&listener),
        [
            "meshpassthrough_tls_example.com_*: * example.com tls",
            "meshpassthrough_http_*: * raw_buffer http/1.0,http/1.1,h2c",
            // Everything passes here, by whatever name.
            "meshpassthrough_tcp_10.0.0.0/8_443: 443 10.0.0.0/8",
            "meshpassthrough_tcp_10.0.0.0/8_443: 443 10.1.0.0/16 tls",
            "meshpassthrough_http_443: 443 10.1.0.0/16 raw_buffer http/1.0,http/1.1,h2c",
            "meshpassthrough_tcp_10.0.0.0/8_443: 443 10.1.0.0/16 raw_buffer",
            "meshpassthrough_tls_example.com_*: 443 example.com tls",
            "meshpassthrough_http_443: 443 raw_buffer http/1.0,http/1.1,h2c",
        ]
    );
}

#[test]
fn ports_where_the_server_sends_first_are_not_inspected() {
    let input = matching(&["tls *", "mysql 10.0.0.1 3306", "mysql 10.0.0.1 3307", "tls 10.0.0.2 3306"]);
    let listener = listeners(&input).remove(0);
    assert_eq!(
        chains(&listener),
        [
            "meshpassthrough_tls_*_*: * tls",
            "meshpassthrough_http_*: * raw_buffer http/1.0,http/1.1,h2c",
            "meshpassthrough_mysql_10.0.0.1_3306: 3306 10.0.0.1/32",
            "meshpassthrough_tls_10.0.0.2_3306: 3306 10.0.0.2/32",
            "meshpassthrough_mysql_10.0.0.1_3307: 3307 10.0.0.1/32",
        ]
    );
    let range = |start: u32| json!({ "destinationPortRange": { "start": start, "end": start + 1 } });
    for filter in &listener.listener_filters[1..] {
        assert_eq!(at(filter, "/filterDisabled"), json!({ "orMatch": { "rules": [range(3306), range(3307)] } }));
    }
}

#[test]
fn ranges_belong_to_the_listener_of_their_family() {
    let matches = ["tcp 10.0.0.0/8", "tcp fd00::/8", "tls example.com 443"];
    let listeners = listeners(&Passthrough { ipv6: true, ..matching(&matches) });
    let ranges = |listener: &Listener| {
        let chains = chains(listener).into_iter().filter(|chain| chain.starts_with("meshpassthrough_tcp"));
        chains.collect::<Vec<_>>()
    };
    assert_eq!(
        ranges(&listeners[0]),
        ["meshpassthrough_tcp_10.0.0.0/8_*: * 10.0.0.0/8", "meshpassthrough_tcp_10.0.0.0/8_*: 443 10.0.0.0/8"]
    );
    assert_eq!(
        ranges(&listeners[1]),
        ["meshpassthrough_tcp_fd00::/8_*: * fd00::/8", "meshpassthrough_tcp_fd00::/8_*: 443 fd00::/8"]
    );
    let count = |ipv6: bool| {
        let clusters = clusters(&Passthrough { ipv6, ..matching(&matches) });
        clusters.iter().filter(|cluster| cluster.name.starts_with("meshpassthrough")).count()
    };
    assert_eq!((count(true), count(false)), (3, 2));
}

#[test]
fn virtual_addresses_without_a_listener_are_answered_at_every_port() {
    let trimmed: [Cidr; 1] = ["240.0.0.0/4".parse().unwrap()];
    let input = matching(&["tls example.com 443", "tcp 0.0.0.0/0", "tcp 241.0.0.1 80"]);
    let listener =
        listeners(&Passthrough { trimmed: Some(Client { name: "web-1".into(), ranges: trimmed.into() }), ..input })
            .remove(0);
    let all = chains(&listener);
    assert_eq!(all[..2], [": * 240.0.0.0/4", ": 443 240.0.0.0/4"]);
    assert!(!all.iter().any(|chain| chain.contains("241.0.0.1")), "{all:?}");
}

#[test]
fn each_range_has_a_chain_at_each_port_that_a_match_has() {
    let texts: Vec<String> = (0..200).map(|n| format!("tcp 10.{n}.0.0/16")).collect();
    let mut texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    texts.extend(["tls example.com 443", "http 10.0.0.0/8 443"]);
    let listener = listeners(&matching(&texts)).remove(0);
    // A chain for each range and port, because each has a cluster; and those of example.com and HTTP.
    assert_eq!(chains(&listener).len(), 200 + 200 + 4);
}
