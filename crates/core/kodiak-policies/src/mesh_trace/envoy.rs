//! Tracing of the HTTP connection managers of inbounds and outbounds.

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::{GrpcService, grpc_service};
use kodiak_envoy::envoy::config::trace::v3::zipkin_config::CollectorEndpointVersion;
use kodiak_envoy::envoy::config::trace::v3::{DatadogConfig, OpenTelemetryConfig, ZipkinConfig, tracing};
use kodiak_envoy::envoy::extensions::filters::network::http_connection_manager::v3::http_connection_manager::Tracing;
use kodiak_envoy::envoy::r#type::tracing::v3::{CustomTag, custom_tag};
use kodiak_envoy::envoy::r#type::v3::Percent;
use kodiak_model::IntOrString;

use super::backend::{self, Address, Sink, Zipkin};
use super::{Conf, HeaderTag, Sampling, Tag, ZipkinApiVersion};
use crate::open_telemetry::{OtlpEndpoint, OtlpSignal};
use crate::policy::for_everybody;
use crate::target::{Carrier, Destination, Inbound, Outbound, ProxyFact, ProxyFacts};
use crate::{Confs, Entry};

/// Name of a service without tags and without a workload.
const UNKNOWN: &str = "unknown";
const MESH_TAG: &str = "kuma.mesh";
const ZONE_TAG: &str = "kuma.zone";
const WORKLOAD_TAG: &str = "kuma.workload";

pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    if entries.is_empty() {
        return;
    }
    let Some(tracing) = tracing(&for_everybody(entries).read(), inbound.mesh, inbound.facts, Direction::Inbound) else {
        return;
    };
    for chain in &mut inbound.chains {
        trace(&mut chain.carrier, &tracing);
    }
}

/// Requests to a MeshExternalService are not traced: its server is not part of the mesh.
pub(super) fn outbound(confs: &Confs, outbound: &mut Outbound<'_>) {
    let Some(conf) = &confs.whole else { return };
    match outbound.destination {
        Destination::Service(_) | Destination::Resource(_) => (),
        Destination::External(_) | Destination::Outside => return,
    }
    let direction = Direction::Outbound(outbound.cluster);
    if let Some(tracing) = tracing(&conf.read(), outbound.mesh, outbound.facts, direction) {
        trace(&mut outbound.carrier, &tracing);
    }
}

/// TCP has no requests to trace.
fn trace(carrier: &mut Carrier, tracing: &Tracing) {
    match carrier {
        Carrier::Http(http) => http.manager.tracing = Some(tracing.clone()),
        Carrier::Tcp(_) => (),
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction<'a> {
    Inbound,
    /// To this destination.
    Outbound(&'a str),
}

/// `None` when the conf has no backend.
fn tracing(conf: &Conf, mesh: &str, facts: &ProxyFacts, direction: Direction<'_>) -> Option<Tracing> {
    let Conf { sampling, tags, backends: _ } = conf;
    let sink = backend::of(conf)?;
    let service = facts.get(&ProxyFact::Service).map_or(UNKNOWN, |service| service);
    let Sampling { overall, client, random } = sampling.clone().unwrap_or_default();
    Some(Tracing {
        client_sampling: percent(client),
        random_sampling: percent(random),
        overall_sampling: percent(overall),
        custom_tags: custom_tags(tags.as_deref().unwrap_or_default(), mesh, facts),
        provider: Some(provider(&sink, service, direction)),
        // The span of the outbound is the client's one already. Only gateways would need another.
        spawn_upstream_span: Some(false),
        ..Tracing::default()
    })
}

/// Envoy's default, 100, when missing.
fn percent(written: Option<IntOrString>) -> Option<Percent> {
    written?.decimal().map(|value| Percent { value })
}

/// Tags of a policy replace those that describe the proxy.
fn custom_tags(written: &[Tag], mesh: &str, facts: &ProxyFacts) -> Vec<CustomTag> {
    let fact = |fact| facts.get(&fact).map_or("", |value| value);
    let own = [(MESH_TAG, mesh), (ZONE_TAG, fact(ProxyFact::Zone)), (WORKLOAD_TAG, fact(ProxyFact::Workload))];
    let own = own.into_iter().filter(|(name, _)| written.iter().all(|tag| tag.name != *name));
    let own = own.filter_map(|(name, value)| Some(custom_tag(name, literal(value)?)));
    own.chain(written.iter().filter_map(of_policy)).collect()
}

/// `None` for a tag that Envoy would reject.
fn of_policy(tag: &Tag) -> Option<CustomTag> {
    let Tag { name, literal: value, header } = tag;
    let value = match (value, header) {
        (Some(value), _) => literal(value)?,
        (None, Some(HeaderTag { name, default })) => {
            let default_value = default.clone().unwrap_or_default();
            let is_name = !name.is_empty() && !name.contains(['\0', '\r', '\n']);
            is_name
                .then(|| custom_tag::Type::RequestHeader(custom_tag::Header { name: name.clone(), default_value }))?
        }
        (None, None) => return None,
    };
    (!name.is_empty()).then(|| custom_tag(name, value))
}

fn literal(value: &str) -> Option<custom_tag::Type> {
    (!value.is_empty()).then(|| custom_tag::Type::Literal(custom_tag::Literal { value: value.to_owned() }))
}

fn custom_tag(name: &str, value: custom_tag::Type) -> CustomTag {
    CustomTag { tag: name.to_owned(), r#type: Some(value) }
}

fn provider(sink: &Sink, service: &str, direction: Direction<'_>) -> tracing::Http {
    let (name, config) = match sink {
        Sink::Zipkin(written) => ("envoy.tracers.zipkin", any(&zipkin(written, sink.cluster()))),
        Sink::Datadog { address, split_service } => {
            ("envoy.tracers.datadog", any(&datadog(address, *split_service, sink.cluster(), service, direction)))
        }
        Sink::OpenTelemetry(endpoint) => {
            let config = open_telemetry(endpoint, sink.cluster());
            let config = OpenTelemetryConfig { service_name: service.to_owned(), ..config };
            ("envoy.tracers.opentelemetry", any(&config))
        }
    };
    tracing::Http { name: name.to_owned(), config_type: Some(tracing::http::ConfigType::TypedConfig(config)) }
}

/// Envoy uses the cluster of its node as the name of the service: the first service of the Dataplane.
fn zipkin(zipkin: &Zipkin, cluster: &str) -> ZipkinConfig {
    let Zipkin { address, tls: _, path, trace_id_128_bit, api_version, shared_span_context } = zipkin;
    let version = match api_version {
        ZipkinApiVersion::HttpJson => CollectorEndpointVersion::HttpJson,
        ZipkinApiVersion::HttpProto => CollectorEndpointVersion::HttpProto,
    };
    ZipkinConfig {
        collector_cluster: cluster.to_owned(),
        collector_endpoint: path.clone(),
        collector_hostname: address.authority(),
        collector_endpoint_version: version.into(),
        trace_id_128bit: *trace_id_128_bit,
        shared_span_context: Some(*shared_span_context),
        ..ZipkinConfig::default()
    }
}

fn datadog(
    address: &Address,
    split_service: bool,
    cluster: &str,
    service: &str,
    direction: Direction<'_>,
) -> DatadogConfig {
    let service_name = match direction {
        Direction::Inbound if split_service => format!("{service}_INBOUND"),
        Direction::Outbound(destination) if split_service => format!("{service}_OUTBOUND_{destination}"),
        Direction::Inbound | Direction::Outbound(_) => service.to_owned(),
    };
    DatadogConfig {
        collector_cluster: cluster.to_owned(),
        collector_hostname: address.authority(),
        service_name,
        ..DatadogConfig::default()
    }
}

fn open_telemetry(endpoint: &OtlpEndpoint, cluster: &str) -> OpenTelemetryConfig {
    if let Some(service) = endpoint.http_service(OtlpSignal::Traces, cluster) {
        return OpenTelemetryConfig { http_service: Some(service), ..OpenTelemetryConfig::default() };
    }
    let collector = grpc_service::EnvoyGrpc { cluster_name: cluster.to_owned(), ..grpc_service::EnvoyGrpc::default() };
    let service = GrpcService {
        target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(collector)),
        ..GrpcService::default()
    };
    OpenTelemetryConfig { grpc_service: Some(service), ..OpenTelemetryConfig::default() }
}

#[cfg(test)]
mod tests {
    use kodiak_model::Protocol;

    use super::*;
    use crate::mesh_trace::Traces;
    use crate::samples::{
        FACTS, as_http, as_tcp, check, for_all, http, inbound, outbound, route, rule, tcp, to_backend, value,
    };

    const TO_COLLECTOR: &str = "{type: OpenTelemetry, openTelemetry: {endpoint: 'collector:4317'}}";

    fn conf(backend: &str) -> String {
        format!("backends: [{backend}]")
    }

    fn of_outbound(text: &str) -> Option<Tracing> {
        let carrier = outbound(&Traces, &for_all(text), Protocol::Http, http(vec![route("")]));
        as_http(&carrier).manager.tracing.clone()
    }

    fn of_inbound(text: &str) -> Option<Tracing> {
        let served = inbound(&Traces, &[rule("[]", text)], &http(vec![route("")]));
        let [plain, mtls] = &*served.chains else { panic!("two chains") };
        let tracing = as_http(&mtls.carrier).manager.tracing.clone();
        assert_eq!(as_http(&plain.carrier).manager.tracing, tracing);
        tracing
    }

    fn service_name(tracing: Option<Tracing>) -> String {
        let Some(tracing::http::ConfigType::TypedConfig(config)) = tracing.unwrap().provider.unwrap().config_type
        else {
            panic!("no configuration")
        };
        kodiak_envoy::unpack::<DatadogConfig>(&config).unwrap().service_name
    }

    #[test]
    fn inbound_and_outbound_report_to_the_collector_under_the_name_of_the_proxy() {
        let expected = r#"
            custom_tags:
            - {tag: kuma.mesh, literal: {value: default}}
            - {tag: kuma.zone, literal: {value: east}}
            - {tag: kuma.workload, literal: {value: kri_wl_default_east__web_}}
            provider:
              name: envoy.tracers.opentelemetry
              typed_config:
                "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
                grpc_service: {envoy_grpc: {cluster_name: "meshtrace:opentelemetry"}}
                service_name: web
            spawn_upstream_span: false
            "#;
        check(&of_outbound(&conf(TO_COLLECTOR)).unwrap(), expected);
        check(&of_inbound(&conf(TO_COLLECTOR)).unwrap(), expected);
    }

    #[test]
    fn open_telemetry_over_http_posts_to_the_path_of_traces() {
        let http = "{type: OpenTelemetry, openTelemetry: {endpoint: 'http://collector:4318/tenant'}}";
        check(
            &of_inbound(&conf(http)).unwrap().provider.unwrap(),
            r#"
            name: envoy.tracers.opentelemetry
            typed_config:
              "@type": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig
              http_service:
                http_uri:
                  uri: http://collector:4318/tenant/v1/traces
                  cluster: meshtrace:opentelemetry
                  timeout: 10s
              service_name: web
            "#,
        );
    }

    #[test]
    fn zipkin_has_its_path_and_host() {
        let zipkin = "{type: Zipkin, zipkin: {url: 'https://zipkin.example/api/v2/spans', traceId128bit: true, apiVersion: httpProto, sharedSpanContext: false}}";
        let provider = of_inbound(&conf(zipkin)).unwrap().provider.unwrap();
        check(
            &provider,
            r#"
            name: envoy.tracers.zipkin
            typed_config:
              "@type": type.googleapis.com/envoy.config.trace.v3.ZipkinConfig
              collector_cluster: meshtrace:zipkin
              collector_endpoint: /api/v2/spans
              collector_hostname: zipkin.example:443
              collector_endpoint_version: HTTP_PROTO
              trace_id_128bit: true
              shared_span_context: false
            "#,
        );
    }

    #[test]
    fn datadog_splits_services_by_direction_and_destination() {
        let datadog =
            |split| conf(&format!("{{type: Datadog, datadog: {{url: 'http://agent:8126', splitService: {split}}}}}"));
        assert_eq!(service_name(of_inbound(&datadog(false))), "web");
        assert_eq!(service_name(of_outbound(&datadog(false))), "web");
        assert_eq!(service_name(of_inbound(&datadog(true))), "web_INBOUND");
        assert_eq!(service_name(of_outbound(&datadog(true))), "web_OUTBOUND_backend");
    }

    #[test]
    fn sampling_may_have_decimals() {
        let sampling = "sampling: {overall: 80, client: 40, random: '12.5'}";
        let tracing = of_outbound(&format!("{}\n{sampling}", conf(TO_COLLECTOR))).unwrap();
        let value = |percent: Option<Percent>| percent.map(|percent| percent.value);
        assert_eq!(
            (value(tracing.overall_sampling), value(tracing.client_sampling), value(tracing.random_sampling)),
            (Some(80.0), Some(40.0), Some(12.5))
        );
        assert_eq!(of_outbound(&conf(TO_COLLECTOR)).unwrap().overall_sampling, None);
        let none = of_outbound(&format!("{}\nsampling: {{overall: 0}}", conf(TO_COLLECTOR))).unwrap();
        assert_eq!(none.overall_sampling, Some(Percent { value: 0.0 }));
    }

    #[test]
    fn tags_of_the_policy_replace_those_of_the_proxy() {
        let tags = value(
            "[{name: team, literal: core}, {name: env, header: {name: x-env, default: prod}},
              {name: user, header: {name: x-user}}, {name: kuma.zone, literal: moon},
              {name: empty, literal: ''}, {name: nameless, header: {name: ''}}, {name: nothing}]",
        );
        let written: Vec<Tag> = serde_json::from_value(tags).unwrap();
        let zone_only = [(ProxyFact::Zone, FACTS[&ProxyFact::Zone].clone())].into();
        let tags = custom_tags(&written, "default", &zone_only);
        let expected = "
            custom_tags:
            - {tag: kuma.mesh, literal: {value: default}}
            - {tag: team, literal: {value: core}}
            - {tag: env, request_header: {name: x-env, default_value: prod}}
            - {tag: user, request_header: {name: x-user}}
            - {tag: kuma.zone, literal: {value: moon}}
            ";
        check(&Tracing { custom_tags: tags, ..Tracing::default() }, expected);
    }

    #[test]
    fn nothing_is_traced_without_a_backend_or_requests() {
        for conf in ["backends: []", "tags: []", "backends: [{type: Datadog}]"] {
            assert_eq!((of_inbound(conf), of_outbound(conf)), (None, None), "{conf}");
        }
        let conf = conf(TO_COLLECTOR);
        let carrier = outbound(&Traces, &for_all(&conf), Protocol::Tcp, tcp());
        assert_eq!(carrier, tcp());
        let served = inbound(&Traces, &[rule("[]", &conf)], &tcp());
        assert!(as_tcp(&served.chains[0].carrier).filters.is_empty());
        assert_eq!(of_inbound_without_policy(), None);
    }

    fn of_inbound_without_policy() -> Option<Tracing> {
        let served = inbound(&Traces, &[], &http(vec![route("")]));
        as_http(&served.chains[0].carrier).manager.tracing.clone()
    }

    #[test]
    fn requests_to_external_services_are_not_traced() {
        let backends = crate::target::Backends::default();
        let mut external = Outbound {
            destination: Destination::External("example"),
            ..to_backend(Protocol::Http, http(vec![route("")]), &backends)
        };
        super::outbound(&for_all(&conf(TO_COLLECTOR)), &mut external);
        assert_eq!(external.carrier, http(vec![route("")]));
    }
}
