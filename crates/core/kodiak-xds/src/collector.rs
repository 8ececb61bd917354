//! Clusters of the servers that receive logs, traces or metrics.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::cluster::v3::cluster::DiscoveryType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{CommonTlsContext, UpstreamTlsContext};
use kodiak_model::address::is_ip;
use kodiak_policies::target::{Collector, CollectorProtocol};

use crate::clusters::{self, Http};
use crate::input::CollectorCluster;
use crate::{address, tls};

pub fn cluster(CollectorCluster { collector, ipv6 }: &CollectorCluster) -> Cluster {
    let Collector { name, address: host, port, protocol, tls: encrypted } = collector;
    let discovery = if is_ip(host) { DiscoveryType::Static } else { DiscoveryType::StrictDns };
    let http = match protocol {
        CollectorProtocol::Http => None,
        CollectorProtocol::Grpc => Some(clusters::http(Http::Two)),
    };
    let context = || UpstreamTlsContext {
        sni: if is_ip(host) { String::new() } else { host.clone() },
        common_tls_context: Some(CommonTlsContext::default()),
        ..UpstreamTlsContext::default()
    };
    Cluster {
        load_assignment: Some(clusters::assignment(name, address::tcp(host, *port))),
        typed_extension_protocol_options: http.into_iter().collect(),
        transport_socket: encrypted.then(|| tls::socket(&context())),
        dns_lookup_family: clusters::lookup(discovery, *ipv6).into(),
        ..clusters::with_stat_name(clusters::cluster(name, discovery))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{at, check};

    fn collector(address: &str, protocol: CollectorProtocol, tls: bool) -> CollectorCluster {
        let name = "meshtrace:opentelemetry".into();
        CollectorCluster {
            collector: Collector { name, address: address.to_owned(), port: 4317, protocol, tls },
            ipv6: true,
        }
    }

    #[test]
    fn hostname_is_resolved_to_ipv4_alone_without_ipv6() {
        for (host, ipv6, family) in
            [("otel", false, "V4_ONLY".into()), ("otel", true, Value::Null), ("10.0.0.1", false, Value::Null)]
        {
            let input = CollectorCluster { ipv6, ..collector(host, CollectorProtocol::Grpc, false) };
            assert_eq!(at(&cluster(&input), "/dnsLookupFamily"), family, "{host} {ipv6}");
        }
    }

    #[test]
    fn hostname_is_resolved_and_grpc_needs_http_2() {
        check(
            &cluster(&collector("collector.observability", CollectorProtocol::Grpc, false)),
            r#"
            name: meshtrace:opentelemetry
            alt_stat_name: meshtrace_opentelemetry
            type: STRICT_DNS
            connect_timeout: 5s
            circuit_breakers: {thresholds: [{track_remaining: true}]}
            load_assignment:
              cluster_name: meshtrace:opentelemetry
              endpoints:
              - lb_endpoints:
                - endpoint: {address: {socket_address: {address: collector.observability, port_value: 4317}}}
            typed_extension_protocol_options:
              envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
                "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
                explicit_http_config: {http2_protocol_options: {}}
            "#,
        );
    }

    #[test]
    fn address_is_not_resolved() {
        let plain = cluster(&collector("10.0.0.1", CollectorProtocol::Http, false));
        assert_eq!(at(&plain, "/type"), "STATIC");
        assert_eq!(at(&plain, "/transportSocket"), Value::Null);
        assert_eq!(at(&plain, "/typedExtensionProtocolOptions"), Value::Null);
    }

    #[test]
    fn tls_uses_the_hostname_as_sni() {
        let encrypted = cluster(&collector("zipkin.example", CollectorProtocol::Http, true));
        assert_eq!(at(&encrypted, "/transportSocket/typedConfig/sni"), "zipkin.example");
    }
}
