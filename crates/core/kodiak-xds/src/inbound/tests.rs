//! Inbounds of each protocol, with and without mTLS.

use std::sync::Arc;

use kodiak_model::policy::Conf;
use kodiak_policies::{Entry, Source};
use serde_json::{Value, json};

use super::*;
use crate::input::{Shape, TlsParameters, TlsSource};
use crate::testing::{at, check, tags};

fn inbound(protocol: Protocol, accept: InboundTls) -> Inbound {
    Inbound {
        mesh: "default".into(),
        address: "10.0.0.5".to_owned(),
        port: 80,
        workload_address: "10.0.0.5".to_owned(),
        workload_port: 8080,
        cluster: "localhost:8080".into(),
        section: "80".to_owned(),
        protocol,
        tags: tags(&[("kuma.io/service", "backend")]),
        accept,
        plaintext_callers: None,
        tls: TlsSource::ControlPlane,
        tls_parameters: TlsParameters::default(),
        entries: Arc::default(),
        facts: Arc::default(),
        shape: Shape { transparent: true, reuse_port: true, ipv6: false },
    }
}

fn filter_names(listener: &Listener, chain: usize) -> Vec<Value> {
    let filters = at(listener, &format!("/filterChains/{chain}/filters"));
    filters.as_array().unwrap().iter().map(|filter| filter["name"].clone()).collect()
}

fn http_filter_names(listener: &Listener, chain: usize) -> Vec<Value> {
    let filters = at(listener, &format!("/filterChains/{chain}/filters/0/typedConfig/httpFilters"));
    filters.as_array().unwrap().iter().map(|filter| filter["name"].clone()).collect()
}

#[test]
fn plaintext_http_inbound_has_one_chain_without_a_match() {
    check(
        &listener(&inbound(Protocol::Http, InboundTls::Plaintext)),
        r#"
        name: inbound:10.0.0.5:80
        traffic_direction: INBOUND
        enable_reuse_port: true
        bind_to_port: false
        address: {socket_address: {address: 10.0.0.5, port_value: 80}}
        metadata: {filter_metadata: {io.kuma.tags: {kuma.io/service: backend}}}
        filter_chains:
        - filters:
          - name: envoy.filters.network.http_connection_manager
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: localhost_8080
              forward_client_cert_details: SANITIZE_SET
              set_current_client_cert_details: {uri: true}
              internal_address_config:
                cidr_ranges:
                - {address_prefix: 10.0.0.0, prefix_len: 8}
                - {address_prefix: 192.168.0.0, prefix_len: 16}
                - {address_prefix: 172.16.0.0, prefix_len: 12}
                - {address_prefix: 127.0.0.1, prefix_len: 32}
              common_http_protocol_options: {idle_timeout: 0s}
              request_headers_timeout: 0s
              stream_idle_timeout: 3600s
              http_filters:
              - name: envoy.filters.http.router
                typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
              route_config:
                name: inbound:backend
                validate_clusters: false
                request_headers_to_remove: [x-kuma-tags]
                virtual_hosts:
                - name: backend
                  domains: ["*"]
                  routes:
                  - match: {prefix: /}
                    route: {cluster: "localhost:8080", timeout: 15s, idle_timeout: 1800s}
        "#,
    );
}

#[test]
fn permissive_inbound_has_three_chains_and_permissions_in_the_last() {
    let listener = listener(&inbound(Protocol::Grpc, InboundTls::Permissive));
    assert_eq!(at(&listener, "/listenerFilters/0/name"), "envoy.filters.listener.tls_inspector");
    let matches: Vec<_> = (0..3).map(|n| at(&listener, &format!("/filterChains/{n}/filterChainMatch"))).collect();
    assert_eq!(
        matches,
        [
            json!({"transportProtocol": "raw_buffer"}),
            json!({"transportProtocol": "tls"}),
            json!({"applicationProtocols": ["kuma"], "transportProtocol": "tls"}),
        ]
    );
    let (stats, router) = ("envoy.filters.http.grpc_stats", "envoy.filters.http.router");
    assert_eq!(http_filter_names(&listener, 0), [stats, router]);
    assert_eq!(http_filter_names(&listener, 1), [stats, router]);
    assert_eq!(http_filter_names(&listener, 2), ["envoy.filters.http.rbac", stats, router]);
    let tls: Vec<_> =
        (0..3).map(|n| at(&listener, &format!("/filterChains/{n}/transportSocket")) != Value::Null).collect();
    assert_eq!(tls, [false, false, true]);
}

#[test]
fn strict_inbound_has_one_chain_with_permissions_first() {
    for protocol in [Protocol::Tcp, Protocol::Kafka, Protocol::Tls, Protocol::Mysql] {
        let listener = listener(&inbound(protocol, InboundTls::Strict));
        assert_eq!(listener.filter_chains.len(), 1);
        assert_eq!(at(&listener, "/filterChains/0/filterChainMatch"), Value::Null);
        assert_eq!(filter_names(&listener, 0), ["envoy.filters.network.rbac", "envoy.filters.network.tcp_proxy"]);
        let stat_prefix = at(&listener, "/filterChains/0/filters/0/typedConfig/statPrefix");
        assert_eq!(stat_prefix, "inbound_10_0_0_5_80.");
        let proxy = at(&listener, "/filterChains/0/filters/1/typedConfig");
        assert_eq!(proxy["cluster"], "localhost:8080");
        assert_eq!(proxy["idleTimeout"], "3600s");
    }
}

#[test]
fn binds_without_redirection_and_shows_the_section_without_tags() {
    let mut bound = inbound(Protocol::Tcp, InboundTls::Plaintext);
    bound.shape = Shape { transparent: false, reuse_port: false, ipv6: true };
    bound.tags.clear();
    let listener = listener(&bound);
    assert_eq!(listener.bind_to_port, None);
    assert_eq!(listener.enable_reuse_port, Some(false));
    let shown = at(&listener, "/metadata/filterMetadata/io.kuma.tags");
    assert_eq!(shown, json!({"kuma.io/unified-name": "self_inbound_dp_80"}));
    assert_eq!(cluster(&bound).upstream_bind_config, None);
}

#[test]
fn application_cluster_uses_its_protocol_and_bypasses_redirection() {
    check(
        &cluster(&inbound(Protocol::Http, InboundTls::Plaintext)),
        r#"
        name: localhost:8080
        alt_stat_name: localhost_8080
        type: STATIC
        connect_timeout: 5s
        circuit_breakers: {thresholds: [{track_remaining: true}]}
        upstream_bind_config: {source_address: {address: 127.0.0.6, port_value: 0}}
        load_assignment:
          cluster_name: localhost:8080
          endpoints:
          - lb_endpoints: [{endpoint: {address: {socket_address: {address: 10.0.0.5, port_value: 8080}}}}]
        typed_extension_protocol_options:
          envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
            "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
            common_http_protocol_options: {idle_timeout: 3600s, max_connection_duration: 0s, max_stream_duration: 0s}
            explicit_http_config: {http_protocol_options: {}}
        "#,
    );
    for (workload, source) in [("127.0.0.1", Value::Null), ("::1", Value::Null), ("fd00::5", json!("::6"))] {
        let inbound =
            Inbound { workload_address: workload.to_owned(), ..inbound(Protocol::Tcp, InboundTls::Plaintext) };
        let cluster = cluster(&inbound);
        assert_eq!(at(&cluster, "/upstreamBindConfig/sourceAddress/address"), source, "{workload}");
        assert!(cluster.typed_extension_protocol_options.is_empty());
    }
}

#[test]
fn callers_without_mtls_are_logged_when_they_start() {
    for (protocol, start) in [(Protocol::Http, "DownstreamStart"), (Protocol::Tcp, "TcpConnectionStart")] {
        let inbound = Inbound { plaintext_callers: Some("./pipe".into()), ..inbound(protocol, InboundTls::Permissive) };
        let listener = listener(&inbound);
        let logs = |chain: usize| {
            let filters = at(&listener, &format!("/filterChains/{chain}/filters"));
            filters.as_array().unwrap().last().unwrap()["typedConfig"]["accessLog"].clone()
        };
        for chain in [0, 1] {
            let logs = logs(chain);
            let [log] = &logs.as_array().unwrap()[..] else { panic!("{logs}") };
            assert_eq!(log["filter"]["logTypeFilter"]["types"], json!([start]));
            let fields = &log["typedConfig"]["logFormat"]["jsonFormat"];
            assert_eq!(fields["message"], "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT% 80");
            assert_eq!(fields["address"], names::PLAINTEXT_CALLERS);
        }
        assert_eq!(logs(2), Value::Null, "callers with mTLS");
    }
}

#[test]
fn logs_of_policies_do_not_change_while_callers_without_mtls_are_logged() {
    let backends = json!([{ "type": "File", "file": { "path": "/dev/stdout" } }]);
    let log = Entry {
        policy: "log".into(),
        source: Source::Matches(Vec::new()),
        conf: Conf::new(json!({ "backends": backends })),
    };
    let entries = Arc::new([("MeshAccessLog", vec![log])].into());
    let pipe = Some("./pipe".into());
    let inbound = Inbound { plaintext_callers: pipe, entries, ..inbound(Protocol::Http, InboundTls::Permissive) };
    let logs = at(&listener(&inbound), "/filterChains/0/filters/0/typedConfig/accessLog");
    assert_eq!(logs[0]["filter"]["logTypeFilter"], json!({ "types": ["DownstreamStart"], "exclude": true }));
    assert_eq!(logs.as_array().unwrap().len(), 2);
}
