//! Metrics of one proxy: its listeners, and the settings for `kodiak dp`.

use std::sync::Arc;

use kodiak_policies::{
    mesh_metric::{self, MetricCollector, PrometheusEndpoint, ProxyMetrics, TlsMode},
    target::Collector,
};
use kodiak_xds::{
    build_cluster, build_listener,
    dynamic_config::Document,
    input::{CollectorCluster, CollectorListener, Metrics, MetricsListener, MetricsTls, Tags},
    metrics, names,
    node::{NodeMetadata, features},
};

use crate::{
    cache::Group,
    engine::UpdateContext,
    entries,
    proxy::{Subject, address},
};

pub(crate) struct BuiltMetrics {
    pub(crate) resources: Group,
    pub(crate) document: Arc<Document>,
}

/// `None` if no MeshMetric with backends selects the proxy, or if it has no folder for sockets.
pub(crate) fn of(
    metadata: &NodeMetadata,
    subject: &Subject<'_>,
    context: &mut UpdateContext<'_>,
) -> Option<BuiltMetrics> {
    let kind = mesh_metric::KIND.name;
    let conf = entries::of_whole_proxy(subject.policy_index, kind, &subject.key.name, context.settings.shadow)?;
    let metrics = ProxyMetrics::of(&conf)?;
    let workdir = metadata.workdir.as_deref()?;
    let spec = &subject.dataplane.dataplane;
    let listener = |endpoint: &PrometheusEndpoint| {
        Some(MetricsListener {
            backend: endpoint.name().to_owned(),
            address: address(spec).to_owned(),
            port: endpoint.port,
            path: endpoint.path.clone(),
            tls: tls(endpoint.tls, metadata, subject)?,
        })
    };
    let input = Metrics {
        socket: names::metrics_socket(workdir, &subject.key.name, &subject.key.mesh),
        listeners: metrics.prometheus.iter().filter_map(listener).collect(),
        collectors: metrics.collectors.iter().map(|each| collector(each, workdir, metadata.ipv6_enabled)).collect(),
        reuse_port: metadata.has(features::REUSE_PORT),
    };
    let resources = context.cache.metrics.get(&input, |input| {
        let (listeners, clusters) = (metrics::listeners(input), metrics::clusters(input));
        listeners.iter().map(build_listener).chain(clusters.iter().map(build_cluster)).collect()
    });
    let document = Arc::new(metrics::document(&metrics, address(spec), workdir, &labels(subject, context)));
    Some(BuiltMetrics { resources, document })
}

/// `None` if the certificate is missing: metrics that should be encrypted are never served in plaintext.
fn tls(mode: TlsMode, metadata: &NodeMetadata, subject: &Subject<'_>) -> Option<MetricsTls> {
    match mode {
        TlsMode::Disabled => Some(MetricsTls::Disabled),
        TlsMode::ProvidedTLS => Some(MetricsTls::Files {
            certificate: metadata.metrics_cert_path.clone()?,
            key: metadata.metrics_key_path.clone()?,
        }),
        TlsMode::ActiveMTLSBackend => {
            let source = subject.own_server_certificate()?;
            Some(MetricsTls::Mesh { mesh: subject.key.mesh.clone(), source })
        }
    }
}

fn collector(collector: &MetricCollector, workdir: &str, ipv6: bool) -> CollectorListener {
    let name = collector.name();
    let sink = Collector {
        name: names::metric_collector(&name).into(),
        address: collector.endpoint.host.clone(),
        port: collector.endpoint.port,
        protocol: collector.endpoint.protocol(),
        tls: false,
    };
    let socket = names::collector_socket(workdir, &name);
    CollectorListener { socket, cluster: CollectorCluster { collector: sink, ipv6 } }
}

/// Labels of metrics that are pushed. Prometheus adds those that it discovers.
fn labels(subject: &Subject<'_>, context: &UpdateContext<'_>) -> Tags {
    let dataplane = &subject.dataplane.dataplane;
    let mut all = mesh_metric::metric_labels(dataplane);
    let service = mesh_metric::service(dataplane, &subject.dataplane.labels);
    for (key, value) in [
        ("mesh", &*subject.key.mesh),
        ("dataplane", &*subject.key.name),
        ("service", service),
        ("zone", &*context.settings.zone),
    ] {
        all.insert(key.to_owned(), value.to_owned());
    }
    all
}
