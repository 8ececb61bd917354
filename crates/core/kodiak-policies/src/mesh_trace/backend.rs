//! The backend that spans are sent to, as far as Envoy can reach it.

use kodiak_model::Choice;

use super::{Backend, BackendType, Conf, DatadogBackend, OpenTelemetryBackend, ZipkinApiVersion, ZipkinBackend};
use crate::open_telemetry::{self, OtlpEndpoint};
use crate::target::{Collector, CollectorProtocol};
use crate::url::Uri;

const HTTP_PORT: u32 = 80;
const HTTPS_PORT: u32 = 443;

/// A backend whose address can be read.
#[derive(Debug, PartialEq)]
pub(super) enum Sink {
    Zipkin(Zipkin),
    Datadog { address: Address, split_service: bool },
    OpenTelemetry(OtlpEndpoint),
}

#[derive(Debug, PartialEq)]
pub(super) struct Zipkin {
    pub(super) address: Address,
    pub(super) tls: bool,
    /// Path and query.
    pub(super) path: String,
    pub(super) trace_id_128_bit: bool,
    pub(super) api_version: ZipkinApiVersion,
    pub(super) shared_span_context: bool,
}

#[derive(Debug, PartialEq)]
pub(super) struct Address {
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    pub(super) port: u32,
}

/// `None` without a backend: the conf disables tracing.
pub(super) fn of(conf: &Conf) -> Option<Sink> {
    let Backend { backend_type, zipkin, datadog, open_telemetry } = conf.backends.as_ref()?.first()?;
    match backend_type.as_ref().and_then(Choice::known)? {
        BackendType::Zipkin => Some(Sink::Zipkin(Zipkin::of(zipkin.as_ref()?)?)),
        BackendType::Datadog => {
            let DatadogBackend { url, split_service } = datadog.as_ref()?;
            let (_, address, _) = parse(url)?;
            Some(Sink::Datadog { address, split_service: *split_service })
        }
        BackendType::OpenTelemetry => {
            let OpenTelemetryBackend { endpoint, backend_ref: _ } = open_telemetry.as_ref()?;
            Some(Sink::OpenTelemetry(OtlpEndpoint::parse(endpoint.as_deref()?)?))
        }
    }
}

impl Sink {
    /// Name of the cluster, as in Kuma.
    pub(super) fn cluster(&self) -> &'static str {
        match self {
            Self::Zipkin(_) => "meshtrace:zipkin",
            Self::Datadog { .. } => "meshtrace:datadog",
            Self::OpenTelemetry(_) => "meshtrace:opentelemetry",
        }
    }

    pub(super) fn collector(&self) -> Collector {
        let (host, port, protocol, tls) = match self {
            Self::Zipkin(Zipkin { address: Address { host, port }, tls, .. }) => {
                (host, port, CollectorProtocol::Http, *tls)
            }
            Self::Datadog { address: Address { host, port }, .. } => (host, port, CollectorProtocol::Http, false),
            Self::OpenTelemetry(endpoint) => (&endpoint.host, &endpoint.port, endpoint.protocol(), false),
        };
        Collector { name: self.cluster().into(), address: host.clone(), port: *port, protocol, tls }
    }
}

impl Zipkin {
    fn of(written: &ZipkinBackend) -> Option<Self> {
        let ZipkinBackend { url, trace_id_128_bit, api_version, shared_span_context } = written;
        let (tls, address, path) = parse(url)?;
        Some(Self {
            address,
            tls,
            path,
            trace_id_128_bit: *trace_id_128_bit,
            api_version: api_version.known().unwrap_or(ZipkinApiVersion::HttpJson),
            shared_span_context: *shared_span_context,
        })
    }
}

impl Address {
    /// Value of the host header.
    pub(super) fn authority(&self) -> String {
        let Self { host, port } = self;
        open_telemetry::authority(host, *port)
    }
}

/// Whether it uses TLS, the address, and the path with the query. A URL without a scheme is plain HTTP.
fn parse(url: &str) -> Option<(bool, Address, String)> {
    let with_scheme = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let Uri { scheme, host, port, path, query, .. } = Uri::parse(&with_scheme)?;
    let tls = scheme == "https";
    let port = match port {
        "" if tls => HTTPS_PORT,
        "" => HTTP_PORT,
        port => port.parse::<u16>().ok().filter(|port| *port != 0)?.into(),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    let path = format!("{}{query}", if path.is_empty() { "/" } else { path });
    (!host.is_empty()).then(|| (tls, Address { host: host.to_owned(), port }, path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_telemetry::OtlpSignal;
    use crate::samples::conf;

    fn sink(backend: &str) -> Option<Sink> {
        of(&conf(&format!("backends: [{backend}]")).read())
    }

    fn at(url: &str) -> Option<(bool, String, String)> {
        parse(url).map(|(tls, address, path)| (tls, address.authority(), path))
    }

    #[test]
    fn reads_urls_with_and_without_scheme_port_and_path() {
        let read = |tls, authority: &str, path: &str| Some((tls, authority.to_owned(), path.to_owned()));
        assert_eq!(at("http://jaeger:9411/api/v2/spans"), read(false, "jaeger:9411", "/api/v2/spans"));
        assert_eq!(at("https://zipkin.example/spans?tenant=1"), read(true, "zipkin.example:443", "/spans?tenant=1"));
        assert_eq!(at("zipkin.example"), read(false, "zipkin.example:80", "/"));
        assert_eq!(at("jaeger:9411"), read(false, "jaeger:9411", "/"));
        assert_eq!(at("http://[::1]:8126"), read(false, "[::1]:8126", "/"));
        for bad in ["", "http://", "http://host:0", "http://host:70000", "http://:9411"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn each_backend_has_its_own_cluster() {
        let of = |backend: &str| {
            let collector = sink(backend).unwrap().collector();
            (collector.name.to_string(), collector.address, collector.port, collector.protocol, collector.tls)
        };
        let zipkin = "{type: Zipkin, zipkin: {url: 'https://zipkin.example/api/v2/spans'}}";
        let http = CollectorProtocol::Http;
        assert_eq!(of(zipkin), ("meshtrace:zipkin".into(), "zipkin.example".into(), 443, http, true));
        let datadog = "{type: Datadog, datadog: {url: 'http://agent:8126'}}";
        assert_eq!(of(datadog), ("meshtrace:datadog".into(), "agent".into(), 8126, http, false));
        let collector = "{type: OpenTelemetry, openTelemetry: {endpoint: 'collector'}}";
        let grpc = CollectorProtocol::Grpc;
        assert_eq!(of(collector), ("meshtrace:opentelemetry".into(), "collector".into(), 4317, grpc, false));
    }

    #[test]
    fn open_telemetry_over_http_has_a_path() {
        let http = "{type: OpenTelemetry, openTelemetry: {endpoint: 'http://collector:4318/tenant'}}";
        let Some(Sink::OpenTelemetry(endpoint)) = sink(http) else { panic!() };
        assert_eq!(endpoint.http_path(OtlpSignal::Traces).as_deref(), Some("/tenant/v1/traces"));
        assert_eq!(sink(http).unwrap().collector().protocol, CollectorProtocol::Http);
    }

    #[test]
    fn backend_without_readable_address_is_left_out() {
        for backend in [
            "",
            "{type: Zipkin}",
            "{type: Zipkin, zipkin: {url: 'http://host:0'}}",
            "{type: OpenTelemetry, openTelemetry: {backendRef: {kind: MeshOpenTelemetryBackend, name: main}}}",
        ] {
            assert_eq!(sink(backend), None, "{backend}");
        }
    }
}
