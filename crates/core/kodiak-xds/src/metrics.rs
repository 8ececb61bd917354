//! Listeners for metrics: ports that Prometheus scrapes, and sockets of collectors.
//!
//! Envoy does not serve metrics itself: `kodiak dp` merges those of Envoy with those of applications, and Envoy gives it
//! ports with TLS, and connections to collectors.

use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::{DataSource, TrafficDirection, data_source};
use kodiak_envoy::envoy::config::listener::v3::{FilterChain, Listener};
use kodiak_envoy::envoy::config::route::v3::{RouteMatch, route_match::PathSpecifier};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CommonTlsContext, DownstreamTlsContext, TlsCertificate,
};
use kodiak_policies::mesh_metric::ProxyMetrics;
use serde_json::{Value, json};

use crate::dynamic_config::Document;
use crate::input::{CollectorCluster, CollectorListener, Metrics, MetricsListener, MetricsTls, Tags, TlsParameters};
use crate::{address, clusters, collector, filters, names, routes, tls};

/// Path at which `kodiak dp` reads its configuration, and at which it serves metrics.
pub const PATH: &str = "/meshmetric";

/// Settings for `kodiak dp`, in the JSON format of Kuma. `address` is that of the proxy, `workdir` has its sockets.
pub fn document(metrics: &ProxyMetrics, address: &str, workdir: &str, labels: &Tags) -> Document {
    let ProxyMetrics { sidecar, applications, prometheus: _, collectors } = metrics;
    let applications = applications.iter().map(|application| {
        let mut written = json!({
            "address": application.address.as_deref().unwrap_or(address),
            "port": application.port,
            "path": application.path,
        });
        if let Some(name) = &application.name {
            written["name"] = name.as_str().into();
        }
        written
    });
    let collectors = collectors.iter().map(|collector| {
        let name = collector.name();
        let mut written = json!({
            "endpoint": names::collector_socket(workdir, &name),
            "refreshInterval": format!("{}ms", collector.interval.as_millis()),
        });
        if let Some(path) = collector.http_path() {
            written["http"] = json!({ "authority": collector.endpoint.authority(), "path": path });
        }
        json!({ "type": "OpenTelemetry", "name": name, "openTelemetry": written })
    });
    let metrics = json!({
        "applications": applications.collect::<Vec<Value>>(),
        "backends": collectors.collect::<Vec<Value>>(),
        "sidecar": sidecar,
        "extraLabels": labels,
    });
    Document::new(json!({ "observability": { "metrics": metrics } }).to_string())
}

pub fn listeners(metrics: &Metrics) -> Vec<Listener> {
    let scraped = metrics.listeners.iter().map(|listener| prometheus(listener, metrics.reuse_port));
    scraped.chain(metrics.collectors.iter().map(push)).collect()
}

pub fn clusters(metrics: &Metrics) -> Vec<Cluster> {
    let scraped =
        (!metrics.listeners.is_empty()).then(|| clusters::of_one(names::METRICS, address::pipe(&metrics.socket)));
    let collectors = metrics.collectors.iter().map(|each| collector::cluster(&each.cluster));
    scraped.into_iter().chain(collectors).collect()
}

/// Only the exact path: the socket behind it has no others for Prometheus.
fn prometheus(listener: &MetricsListener, reuse_port: bool) -> Listener {
    let MetricsListener { backend, address, port, path, tls } = listener;
    let name = names::prometheus_listener(backend);
    let exact = RouteMatch { path_specifier: Some(PathSpecifier::Path(path.clone())), ..RouteMatch::default() };
    let route = kodiak_envoy::envoy::config::route::v3::Route {
        r#match: Some(exact),
        ..routes::rewritten(path, names::METRICS, PATH)
    };
    let http = filters::own_http(&name, routes::all_domains(name.clone(), &name, vec![route]));
    Listener {
        address: Some(address::tcp(address, *port)),
        traffic_direction: TrafficDirection::Inbound.into(),
        enable_reuse_port: Some(reuse_port),
        filter_chains: vec![FilterChain {
            filters: vec![filters::http_filter(&http)],
            transport_socket: server_tls(tls).as_ref().map(tls::socket),
            ..FilterChain::default()
        }],
        name,
        ..Listener::default()
    }
}

fn server_tls(tls: &MetricsTls) -> Option<DownstreamTlsContext> {
    match tls {
        MetricsTls::Disabled => None,
        MetricsTls::Files { certificate, key } => Some(DownstreamTlsContext {
            common_tls_context: Some(CommonTlsContext {
                tls_certificates: vec![TlsCertificate {
                    certificate_chain: Some(file(certificate)),
                    private_key: Some(file(key)),
                    ..TlsCertificate::default()
                }],
                ..CommonTlsContext::default()
            }),
            ..DownstreamTlsContext::default()
        }),
        MetricsTls::Mesh { mesh, source } => Some(tls::downstream(mesh, source, &TlsParameters::default())),
    }
}

fn file(path: &str) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::Filename(path.to_owned())), ..DataSource::default() }
}

/// Connections of `kodiak dp` to a collector, which Envoy resolves and encrypts.
fn push(input: &CollectorListener) -> Listener {
    let CollectorListener { socket, cluster: CollectorCluster { collector, ipv6: _ } } = input;
    let proxy = filters::tcp_proxy(&collector.name, &collector.name, None);
    Listener {
        name: collector.name.to_string(),
        address: Some(address::private_pipe(socket)),
        traffic_direction: TrafficDirection::Outbound.into(),
        filter_chains: vec![FilterChain { filters: vec![filters::tcp_filter(&proxy)], ..FilterChain::default() }],
        ..Listener::default()
    }
}

#[cfg(test)]
mod tests {
    use kodiak_policies::target::{Collector, CollectorProtocol};

    use super::*;
    use crate::input::TlsSource;
    use crate::testing::{at, check};

    fn metrics(tls: MetricsTls) -> Metrics {
        let listener = MetricsListener {
            backend: "main".to_owned(),
            address: "10.0.0.5".to_owned(),
            port: 5670,
            path: "/metrics".to_owned(),
            tls,
        };
        Metrics {
            socket: "/tmp/mh.sock".to_owned(),
            listeners: vec![listener],
            collectors: Vec::new(),
            reuse_port: true,
        }
    }

    #[test]
    fn prometheus_reaches_the_socket_of_dp() {
        let metrics = metrics(MetricsTls::Disabled);
        check(
            &listeners(&metrics)[0],
            r#"
            name: _kuma:metrics:prometheus:main
            address: {socket_address: {address: 10.0.0.5, port_value: 5670}}
            traffic_direction: INBOUND
            enable_reuse_port: true
            filter_chains:
            - filters:
              - name: envoy.filters.network.http_connection_manager
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                  stat_prefix: _kuma_metrics_prometheus_main
                  internal_address_config: {cidr_ranges: [{address_prefix: 127.0.0.1, prefix_len: 32}]}
                  http_filters:
                  - name: envoy.filters.http.router
                    typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
                  route_config:
                    name: _kuma:metrics:prometheus:main
                    validate_clusters: false
                    virtual_hosts:
                    - name: _kuma:metrics:prometheus:main
                      domains: ["*"]
                      routes:
                      - match: {path: /metrics}
                        route: {cluster: "_kuma:metrics:hijacker", prefix_rewrite: /meshmetric}
            "#,
        );
        let address = at(&clusters(&metrics)[0], "/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address");
        assert_eq!(address, json!({"pipe": {"path": "/tmp/mh.sock"}}));
    }

    #[test]
    fn certificate_files_are_served_to_all_clients() {
        let files = MetricsTls::Files { certificate: "/c.pem".to_owned(), key: "/k.pem".to_owned() };
        let listener = &listeners(&metrics(files))[0];
        let tls = at(listener, "/filterChains/0/transportSocket/typedConfig");
        assert_eq!(tls["requireClientCertificate"], Value::Null);
        let certificate = &tls["commonTlsContext"]["tlsCertificates"][0];
        assert_eq!(certificate["certificateChain"]["filename"], "/c.pem");
        assert_eq!(certificate["privateKey"]["filename"], "/k.pem");
    }

    #[test]
    fn certificates_of_the_mesh_are_required_of_clients() {
        let mesh = MetricsTls::Mesh { mesh: "default".into(), source: TlsSource::ControlPlane };
        let listener = &listeners(&metrics(mesh))[0];
        let tls = at(listener, "/filterChains/0/transportSocket/typedConfig");
        assert_eq!(tls["requireClientCertificate"], true);
        assert_eq!(
            tls["commonTlsContext"]["tlsCertificateSdsSecretConfigs"][0]["name"],
            "identity_cert:secret:default"
        );
    }

    #[test]
    fn collector_is_reached_through_a_socket() {
        let name = names::metric_collector("otel:4317");
        let collector = Collector {
            name: name.as_str().into(),
            address: "otel".to_owned(),
            port: 4317,
            protocol: CollectorProtocol::Grpc,
            tls: false,
        };
        let cluster = CollectorCluster { collector, ipv6: true };
        let collectors = vec![CollectorListener { socket: "/tmp/o.sock".to_owned(), cluster }];
        let metrics = Metrics { listeners: Vec::new(), collectors, ..metrics(MetricsTls::Disabled) };
        let listener = &listeners(&metrics)[0];
        assert_eq!(at(listener, "/address/pipe/path"), "/tmp/o.sock");
        assert_eq!(at(listener, "/filterChains/0/filters/0/typedConfig/cluster"), name.as_str());
        let names: Vec<_> = clusters(&metrics).into_iter().map(|cluster| cluster.name).collect();
        assert_eq!(names, [name]);
    }

    #[test]
    fn dp_gets_addresses_sockets_and_labels() {
        let conf = json!({
            "sidecar": {"profiles": {"appendProfiles": [{"name": "Basic"}]}},
            "applications": [{"name": "web", "port": 8080}, {"address": "127.0.0.1", "port": 9090, "path": "/m"}],
            "backends": [
                {"type": "OpenTelemetry", "openTelemetry": {"endpoint": "otel:4317"}},
                {"type": "OpenTelemetry", "openTelemetry": {"endpoint": "http://vendor:4318/tenant"}},
            ],
        });
        let metrics = ProxyMetrics::of(&kodiak_model::policy::Conf::new(conf)).unwrap();
        let labels = [("mesh".to_owned(), "default".to_owned())].into();
        let document = document(&metrics, "10.0.0.5", "/tmp/dp", &labels);
        let written: Value = serde_json::from_str(document.body()).unwrap();
        assert_eq!(
            written["observability"]["metrics"],
            json!({
                "applications": [
                    {"address": "10.0.0.5", "port": 8080, "path": "/metrics", "name": "web"},
                    {"address": "127.0.0.1", "port": 9090, "path": "/m"},
                ],
                "backends": [
                    {
                        "type": "OpenTelemetry",
                        "name": "otel:4317",
                        "openTelemetry": {
                            "endpoint": names::collector_socket("/tmp/dp", "otel:4317"),
                            "refreshInterval": "60000ms",
                        },
                    },
                    {
                        "type": "OpenTelemetry",
                        "name": "vendor:4318/tenant/v1/metrics",
                        "openTelemetry": {
                            "endpoint": names::collector_socket("/tmp/dp", "vendor:4318/tenant/v1/metrics"),
                            "refreshInterval": "60000ms",
                            "http": {"authority": "vendor:4318", "path": "/tenant/v1/metrics"},
                        },
                    },
                ],
                "sidecar": {"profiles": {"appendProfiles": [{"name": "Basic"}]}},
                "extraLabels": {"mesh": "default"},
            })
        );
    }
}
