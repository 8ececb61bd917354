//! Merged conf of a proxy, with defaults: its endpoints for Prometheus, its collectors, and its applications.

use std::collections::BTreeMap;
use std::time::Duration;

use kodiak_model::kinds::dataplane::Dataplane;
use kodiak_model::{Choice, GoDuration, Labels, labels, policy, tags};

use super::spec::METRICS_PATH;
use super::{Backend, BackendType, Conf, OpenTelemetryBackend, PrometheusBackend, Sidecar, TlsMode};
use crate::open_telemetry::{OtlpEndpoint, OtlpSignal};

/// Name of a Prometheus backend without a client ID.
const DEFAULT_BACKEND: &str = "default-backend";
const REFRESH_INTERVAL: Duration = Duration::from_mins(1);
/// More frequent pushes would only load the proxy and the collector.
const SHORTEST_INTERVAL: Duration = Duration::from_secs(1);

/// Metrics of one proxy. Lists are sorted by name, and names are unique.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProxyMetrics {
    pub sidecar: Sidecar,
    pub applications: Vec<ApplicationEndpoint>,
    pub prometheus: Vec<PrometheusEndpoint>,
    pub collectors: Vec<MetricCollector>,
}

/// Endpoint of an application that the sidecar process scrapes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationEndpoint {
    pub name: Option<String>,
    /// The address of the proxy when missing.
    pub address: Option<String>,
    pub port: u32,
    pub path: String,
}

/// Port of the proxy that Prometheus scrapes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PrometheusEndpoint {
    /// Client ID of the Prometheus that discovers it. Any when missing.
    pub client_id: Option<String>,
    pub port: u32,
    pub path: String,
    pub tls: TlsMode,
}

impl PrometheusEndpoint {
    pub fn name(&self) -> &str {
        self.client_id.as_deref().unwrap_or(DEFAULT_BACKEND)
    }
}

/// OpenTelemetry collector that the sidecar process pushes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricCollector {
    pub endpoint: OtlpEndpoint,
    pub interval: Duration,
}

impl MetricCollector {
    /// `host:port` for gRPC, with the path for HTTP.
    pub fn name(&self) -> String {
        format!("{}{}", self.endpoint.authority(), self.http_path().unwrap_or_default())
    }

    /// Path for OTLP over HTTP. `None` for gRPC.
    pub fn http_path(&self) -> Option<String> {
        self.endpoint.http_path(OtlpSignal::Metrics)
    }
}

impl ProxyMetrics {
    /// `None` without backends: then a proxy exposes no metrics.
    pub fn of(conf: &policy::Conf) -> Option<Self> {
        let Conf { sidecar, applications, backends } = conf.read::<Conf>();
        // Of backends with one name the last is used, as in Kuma.
        let (mut prometheus, mut collectors) = (BTreeMap::new(), BTreeMap::new());
        for Backend { backend_type, prometheus: endpoint, open_telemetry } in backends.into_iter().flatten() {
            match backend_type.as_ref().and_then(Choice::known) {
                Some(BackendType::Prometheus) => {
                    let endpoint = endpoint_of(endpoint.unwrap_or_default());
                    prometheus.insert(endpoint.name().to_owned(), endpoint);
                }
                Some(BackendType::OpenTelemetry) => {
                    if let Some(collector) = open_telemetry.and_then(|backend| collector_of(&backend)) {
                        collectors.insert(collector.name(), collector);
                    }
                }
                None => (),
            }
        }
        if prometheus.is_empty() && collectors.is_empty() {
            return None;
        }
        let applications = applications.into_iter().flatten().map(|application| ApplicationEndpoint {
            name: present(application.name),
            address: present(application.address),
            port: application.port,
            path: present(application.path).unwrap_or_else(|| METRICS_PATH.to_owned()),
        });
        Some(Self {
            sidecar: sidecar.unwrap_or_default(),
            applications: applications.collect(),
            prometheus: prometheus.into_values().collect(),
            collectors: collectors.into_values().collect(),
        })
    }

    /// The endpoint that a Prometheus scrapes: the one with its client ID, or the one without.
    pub fn endpoint_for(&self, client_id: &str) -> Option<&PrometheusEndpoint> {
        let own = self.prometheus.iter().find(|endpoint| endpoint.client_id.as_deref() == Some(client_id));
        own.or_else(|| self.prometheus.iter().find(|endpoint| endpoint.client_id.is_none()))
    }
}

fn endpoint_of(backend: PrometheusBackend) -> PrometheusEndpoint {
    let PrometheusBackend { client_id, port, path, tls } = backend;
    let mode = tls.unwrap_or_default().mode;
    PrometheusEndpoint {
        client_id: present(client_id),
        port,
        path: if path.is_empty() { METRICS_PATH.to_owned() } else { path },
        tls: mode.as_ref().and_then(Choice::known).unwrap_or(TlsMode::Disabled),
    }
}

/// `None` for a reference to a MeshOpenTelemetryBackend that does not exist.
fn collector_of(backend: &OpenTelemetryBackend) -> Option<MetricCollector> {
    let endpoint = OtlpEndpoint::parse(backend.endpoint.as_deref()?)?;
    let interval = backend.refresh_interval.and_then(GoDuration::to_std).unwrap_or(REFRESH_INTERVAL);
    Some(MetricCollector { endpoint, interval: interval.max(SHORTEST_INTERVAL) })
}

fn present(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Identifying service of a Dataplane in its metrics: its first `kuma.io/service`, or its workload.
pub fn service<'a>(dataplane: &'a Dataplane, labels: &'a Labels) -> &'a str {
    let services = dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE));
    services.min().or(labels.get(labels::WORKLOAD)).map_or("unknown", String::as_str)
}

/// Labels for the metrics of a Dataplane: each tag with its first value, and with all of them as `,a,b,` under the plural
/// of its key. Kuma's dashboards select by them.
pub fn metric_labels(dataplane: &Dataplane) -> BTreeMap<String, String> {
    let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in dataplane.tag_sets().flatten() {
        values.entry(key).or_default().push(value);
    }
    let mut all = BTreeMap::new();
    for (key, mut values) in values {
        values.sort_unstable();
        values.dedup();
        all.insert(key.to_owned(), values.first().copied().unwrap_or_default().to_owned());
        all.entry(format!("{key}s")).or_insert_with(|| format!(",{},", values.join(",")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::conf;

    #[test]
    fn nothing_is_exposed_without_backends() {
        assert_eq!(ProxyMetrics::of(&conf("applications: [{port: 8080}]")), None);
        assert_eq!(ProxyMetrics::of(&conf("backends: []")), None);
    }

    #[test]
    fn fields_that_are_not_set_have_defaults() {
        let text = "{applications: [{port: 8080}], backends: [{type: Prometheus, prometheus: {}}]}";
        let metrics = ProxyMetrics::of(&conf(text)).unwrap();
        let (client_id, path) = (None, "/metrics".to_owned());
        assert_eq!(
            metrics.prometheus,
            [PrometheusEndpoint { client_id, port: 5670, path: path.clone(), tls: TlsMode::Disabled }]
        );
        assert_eq!(metrics.prometheus[0].name(), "default-backend");
        assert_eq!(metrics.applications, [ApplicationEndpoint { name: None, address: None, port: 8080, path }]);
    }

    #[test]
    fn prometheus_gets_the_endpoint_with_its_client_id_or_the_one_without() {
        let text = "backends: [{type: Prometheus, prometheus: {clientId: main, port: 1}}, {type: Prometheus, prometheus: {port: 2}}]";
        let metrics = ProxyMetrics::of(&conf(text)).unwrap();
        let port = |client: &str| metrics.endpoint_for(client).map(|endpoint| endpoint.port);
        assert_eq!((port("main"), port("other")), (Some(1), Some(2)));
        let only = ProxyMetrics::of(&conf("backends: [{type: Prometheus, prometheus: {clientId: main}}]")).unwrap();
        assert_eq!(only.endpoint_for("other"), None);
    }

    #[test]
    fn collectors_have_a_port_and_an_interval() {
        let collector = |endpoint: &str| {
            let text = format!("backends: [{{type: OpenTelemetry, openTelemetry: {{endpoint: '{endpoint}'}}}}]");
            ProxyMetrics::of(&conf(&text)).map(|metrics| metrics.collectors[0].name())
        };
        assert_eq!(collector("otel.example").as_deref(), Some("otel.example:4317"));
        assert_eq!(collector("otel.example:80").as_deref(), Some("otel.example:80"));
        assert_eq!(collector("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(collector("http://otel:4318/tenant").as_deref(), Some("otel:4318/tenant/v1/metrics"));
        let text = "backends: [{type: OpenTelemetry, openTelemetry: {endpoint: 'a:1', refreshInterval: 1ms}}]";
        assert_eq!(ProxyMetrics::of(&conf(text)).unwrap().collectors[0].interval, Duration::from_secs(1));
    }

    #[test]
    fn labels_have_all_values_of_a_tag() {
        let inbound = |service: &str| serde_json::json!({"port": 80, "tags": {"kuma.io/service": service}});
        let spec = serde_json::json!({"networking": {"inbound": [inbound("web"), inbound("api")]}});
        let dataplane: Dataplane = serde_json::from_value(spec).unwrap();
        assert_eq!(service(&dataplane, &Labels::default()), "api");
        let labels = metric_labels(&dataplane);
        assert_eq!(labels["kuma.io/service"], "api");
        assert_eq!(labels["kuma.io/services"], ",api,web,");
    }
}
