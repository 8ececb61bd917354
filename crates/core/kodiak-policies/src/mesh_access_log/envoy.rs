//! Access loggers of filter chains.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::accesslog::v3::{AccessLog, AccessLogFilter, access_log};
use kodiak_envoy::envoy::config::core::v3::{GrpcService, SubstitutionFormatString, grpc_service};
use kodiak_envoy::envoy::extensions::access_loggers::file::v3::{FileAccessLog, file_access_log};
use kodiak_envoy::envoy::extensions::access_loggers::open_telemetry::v3::OpenTelemetryAccessLogConfig;
use kodiak_envoy::json::from_json;
use kodiak_envoy::opentelemetry::proto::common::v1::{AnyValue, KeyValue, KeyValueList, any_value};
use kodiak_model::policy;
use kodiak_model::source_match::Match;
use serde_json::Value;

use super::placeholders::{self, Values};
use super::{Attribute, Backend, BackendType, Conf, OpenTelemetryBackend, filter, format};
use crate::open_telemetry::{OtlpEndpoint, OtlpSignal, OtlpTransport};
use crate::target::{Carrier, Chain, Collector, Destination, Inbound, Outbound, ProxyFact, ProxyFacts};
use crate::{Confs, Entry, Source};

const FILE: &str = "envoy.access_loggers.file";
const OPEN_TELEMETRY: &str = "envoy.access_loggers.open_telemetry";
const LOG_NAME: &str = "MeshAccessLog";

/// Every rule logs on its own: a request that matches two of them is logged twice.
pub(super) fn inbound(entries: &[Entry], inbound: &mut Inbound<'_>) {
    let rules = rules(entries);
    let mut chains = std::mem::take(&mut inbound.chains);
    for Chain { mtls, carrier } in &mut chains {
        let values = Values::of_inbound(inbound, *mtls);
        let default = format::default_for(carrier);
        for Rule { matches, conf } in &rules {
            let Some(filter) = filter::of_callers(matches, *mtls) else { continue };
            let loggers = Loggers { default, values: &values, facts: inbound.facts, filter };
            loggers.add(conf, carrier);
        }
    }
    inbound.chains = chains;
    inbound.inspects_tls |= rules.iter().any(|rule| rule.matches.iter().any(|one| one.sni.is_some()));
}

pub(super) fn outbound(confs: &Confs, outbound: &mut Outbound<'_>) {
    let (values, facts) = (Values::of_outbound(outbound), outbound.facts);
    let default = format::default_for(&outbound.carrier);
    let named = confs.routes.iter().map(|(name, conf)| (&**outbound.route_names.get(name).unwrap_or(name), conf));
    let routes: BTreeMap<&str, &policy::Conf> = match &outbound.carrier {
        Carrier::Http(_) => named.collect(),
        Carrier::Tcp(_) => BTreeMap::new(),
    };
    if let Some(conf) = &confs.whole {
        let filter = match (&outbound.carrier, outbound.destination) {
            (Carrier::Http(_), _) if !routes.is_empty() => Some(filter::other_routes(routes.keys())),
            (Carrier::Http(_), Destination::Resource(_)) => Some(filter::no_route_of_its_own()),
            (Carrier::Http(_) | Carrier::Tcp(_), _) => None,
        };
        Loggers { default, values: &values, facts, filter }.add(&conf.read(), &mut outbound.carrier);
    }
    for (name, conf) in routes {
        let filter = Some(filter::route(name));
        Loggers { default, values: &values, facts, filter }.add(&conf.read(), &mut outbound.carrier);
    }
}

/// Collectors that a conf sends logs to.
pub(super) fn collectors(conf: &Conf) -> Vec<Collector> {
    conf.backends.iter().flatten().filter_map(|backend| collector(backend.used_open_telemetry()?)).collect()
}

/// Facts about the proxy that the loggers of a conf contain.
pub(super) fn facts(conf: &Conf) -> BTreeSet<ProxyFact> {
    let mut facts = BTreeSet::new();
    for backend in conf.backends.iter().flatten() {
        match backend.used_type() {
            Some(BackendType::Tcp) => {
                facts.extend(format::facts(backend.tcp.as_ref().and_then(|tcp| tcp.format.as_ref())));
                facts.insert(ProxyFact::AccessLogPipe);
            }
            Some(BackendType::File) => {
                facts.extend(format::facts(backend.file.as_ref().and_then(|file| file.format.as_ref())));
            }
            Some(BackendType::OpenTelemetry) => {
                facts.extend([ProxyFact::Zone, ProxyFact::Workload]);
                let Some(OpenTelemetryBackend { attributes, body, .. }) = &backend.open_telemetry else { continue };
                facts.extend(attributes.iter().flatten().flat_map(|attribute| placeholders::facts(&attribute.value)));
                match body {
                    Some(body) => facts.extend(placeholders::facts(&body.to_string())),
                    None => facts.extend(format::facts(None)),
                }
            }
            None => (),
        }
    }
    facts
}

/// Callers whose requests a rule logs; all when there are no matches.
struct Rule<'a> {
    matches: &'a [Match],
    conf: Conf,
}

/// Rules add up, but for one without backends, which removes those of lower precedence for the same callers.
fn rules(entries: &[Entry]) -> Vec<Rule<'_>> {
    let mut rules: Vec<Rule<'_>> = Vec::new();
    for entry in entries {
        let matches = match &entry.source {
            Source::From(_) => &[],
            Source::Matches(matches) => matches.as_slice(),
        };
        let conf: Conf = entry.conf.read();
        match conf.backends.as_deref() {
            Some([]) => rules.retain(|rule| rule.matches != matches),
            Some(_) => rules.push(Rule { matches, conf }),
            None => (),
        }
    }
    rules
}

/// Access loggers with the same default format, values and filter.
struct Loggers<'a> {
    default: &'a str,
    values: &'a Values<'a>,
    facts: &'a ProxyFacts,
    filter: Option<AccessLogFilter>,
}

impl Loggers<'_> {
    fn add(&self, conf: &Conf, carrier: &mut Carrier) {
        let loggers = conf.backends.iter().flatten().filter_map(|backend| self.logger(backend));
        match carrier {
            Carrier::Http(http) => http.manager.access_log.extend(loggers),
            Carrier::Tcp(tcp) => tcp.proxy.access_log.extend(loggers),
        }
    }

    /// `None` if the proxy cannot log to the backend.
    fn logger(&self, backend: &Backend) -> Option<AccessLog> {
        let (name, config) = match backend.used_type()? {
            BackendType::Tcp => {
                let tcp = backend.tcp.as_ref()?;
                let path = self.facts.get(&ProxyFact::AccessLogPipe)?;
                let lines = format::of_pipe(tcp.format.as_ref(), self.default, &tcp.address, self.values);
                (FILE, any(&file(path, lines)))
            }
            BackendType::File => {
                let written = backend.file.as_ref()?;
                let lines = format::of_file(written.format.as_ref(), self.default, self.values);
                (FILE, any(&file(&written.path, lines)))
            }
            BackendType::OpenTelemetry => (OPEN_TELEMETRY, any(&self.records(backend.used_open_telemetry()?)?)),
        };
        Some(AccessLog {
            name: name.to_owned(),
            filter: self.filter.clone(),
            config_type: Some(access_log::ConfigType::TypedConfig(config)),
        })
    }

    fn records(&self, backend: &OpenTelemetryBackend) -> Option<OpenTelemetryAccessLogConfig> {
        let endpoint = OtlpEndpoint::parse(backend.endpoint.as_deref()?)?;
        let cluster = cluster_of(&endpoint);
        let http_service = endpoint.http_service(OtlpSignal::Logs, &cluster);
        let Values { mesh, zone, workload, .. } = *self.values;
        let resource = [("kuma.mesh", mesh), ("kuma.zone", zone), ("kuma.workload", workload)];
        let resource = resource.into_iter().filter(|(_, value)| !value.is_empty());
        let attribute = |Attribute { key, value }: &Attribute| attribute(key, self.values.fill(value));
        let target = grpc_service::EnvoyGrpc {
            cluster_name: cluster,
            // Envoy would send the name of the cluster. Some servers reject its colons.
            authority: endpoint.authority(),
            ..grpc_service::EnvoyGrpc::default()
        };
        let grpc_service = http_service.is_none().then(|| GrpcService {
            target_specifier: Some(grpc_service::TargetSpecifier::EnvoyGrpc(target)),
            ..GrpcService::default()
        });
        Some(OpenTelemetryAccessLogConfig {
            http_service,
            grpc_service,
            log_name: LOG_NAME.to_owned(),
            resource_attributes: Some(KeyValueList {
                values: resource.map(|(key, value)| attribute_of(key, value)).collect(),
            }),
            body: Some(self.body(backend.body.as_ref())),
            attributes: Some(KeyValueList { values: backend.attributes.iter().flatten().map(attribute).collect() }),
            ..OpenTelemetryAccessLogConfig::default()
        })
    }

    /// A string, or an OTLP value. Another value is logged as its JSON.
    fn body(&self, body: Option<&Value>) -> AnyValue {
        match body {
            None => text(self.values.fill(self.default)),
            Some(Value::String(written)) => text(self.values.fill(written)),
            Some(body) => {
                let filled = fill_strings(body, self.values);
                from_json(&filled).unwrap_or_else(|_| text(filled.to_string().replace('%', "%%")))
            }
        }
    }
}

impl Backend {
    fn used_type(&self) -> Option<BackendType> {
        self.backend_type.as_ref()?.known()
    }

    fn used_open_telemetry(&self) -> Option<&OpenTelemetryBackend> {
        self.open_telemetry.as_ref().filter(|_| self.used_type() == Some(BackendType::OpenTelemetry))
    }
}

fn collector(backend: &OpenTelemetryBackend) -> Option<Collector> {
    let endpoint = OtlpEndpoint::parse(backend.endpoint.as_deref()?)?;
    let (name, protocol) = (cluster_of(&endpoint).into(), endpoint.protocol());
    Some(Collector { name, address: endpoint.host, port: endpoint.port, protocol, tls: false })
}

/// Named after the endpoint alone: listeners that many proxies share reference it.
fn cluster_of(OtlpEndpoint { host, port, transport }: &OtlpEndpoint) -> String {
    let transport = match transport {
        OtlpTransport::Grpc => "",
        OtlpTransport::Http { .. } => "-http",
    };
    format!("meshaccesslog:opentelemetry{transport}:{host}:{port}")
}

fn file(path: &str, lines: SubstitutionFormatString) -> FileAccessLog {
    FileAccessLog { path: path.to_owned(), access_log_format: Some(file_access_log::AccessLogFormat::LogFormat(lines)) }
}

fn fill_strings(value: &Value, values: &Values<'_>) -> Value {
    match value {
        Value::String(text) => Value::String(values.fill(text)),
        Value::Array(items) => items.iter().map(|item| fill_strings(item, values)).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), fill_strings(value, values))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn attribute(key: &str, value: String) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(text(value)), ..KeyValue::default() }
}

fn attribute_of(key: &str, value: &str) -> KeyValue {
    attribute(key, value.to_owned())
}

fn text(text: String) -> AnyValue {
    AnyValue { value: Some(any_value::Value::StringValue(text)) }
}

#[cfg(test)]
mod tests;
