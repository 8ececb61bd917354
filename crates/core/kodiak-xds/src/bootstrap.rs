//! The bootstrap: node identity, and the connection to the control plane.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use kodiak_envoy::envoy::config::accesslog::v3::{AccessLog, access_log};
use kodiak_envoy::envoy::config::bootstrap::v3::bootstrap::{DeferredStatOptions, DynamicResources, StaticResources};
use kodiak_envoy::envoy::config::bootstrap::v3::runtime_layer::LayerSpecifier;
use kodiak_envoy::envoy::config::bootstrap::v3::{self as envoy, LayeredRuntime, RuntimeLayer};
use kodiak_envoy::envoy::config::cluster::v3::cluster::{ClusterDiscoveryType, DiscoveryType, DnsLookupFamily};
use kodiak_envoy::envoy::config::cluster::v3::{Cluster, UpstreamConnectionOptions};
use kodiak_envoy::envoy::config::core::v3::api_config_source::ApiType;
use kodiak_envoy::envoy::config::core::v3::grpc_service::{EnvoyGrpc, TargetSpecifier};
use kodiak_envoy::envoy::config::core::v3::{
    Address, ApiConfigSource, ApiVersion, ConfigSource, GrpcService, HeaderValue, Node, TcpKeepalive,
    TypedExtensionConfig,
};
use kodiak_envoy::envoy::config::metrics::v3::{StatsConfig, TagSpecifier, tag_specifier::TagValue};
use kodiak_envoy::envoy::extensions::access_loggers::file::v3::FileAccessLog;
use kodiak_envoy::envoy::extensions::regex_engines::v3::GoogleRe2;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SdsSecretConfig, Secret, TlsParameters, UpstreamTlsContext, secret,
};
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;
use kodiak_envoy::google::protobuf::{Struct, Value, value::Kind};
use kodiak_envoy::{any, duration};
use serde_json::Value as Json;

use crate::clusters::{self, Http};
use crate::input::AdminEndpoint;
use crate::node::NodeMetadata;
use crate::{address, names, tls};

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Bootstrap {
    /// Empty for zone proxies.
    pub mesh: String,
    pub name: String,
    /// Service name of the proxy in metrics and traces: its first service.
    pub cluster: String,
    pub metadata: NodeMetadata,
    pub control_plane: ControlPlane,
    /// Dataplane token.
    pub token: Option<String>,
    pub protocol: XdsProtocol,
    /// Whether Envoy opens a health discovery (HDS) stream for the probes of its services.
    pub health: bool,
    /// Whether Envoy reports its traffic (LRS).
    pub load_reports: bool,
    pub admin: AdminEndpoint,
}

/// Address and CA of the control plane.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ControlPlane {
    /// Hostname or IP; the control plane's certificate must be issued for it.
    pub host: String,
    pub port: u32,
    /// PEM.
    pub ca: String,
}

/// Variant of xDS: incremental, or state of the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum XdsProtocol {
    Delta,
    StateOfTheWorld,
}

impl fmt::Debug for Bootstrap {
    /// Hides the token.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Bootstrap({})", self.node_id())
    }
}

impl Bootstrap {
    /// The first dot separates mesh and name: mesh names contain none, proxy names may.
    pub fn node_id(&self) -> String {
        format!("{}.{}", self.mesh, self.name)
    }

    pub fn message(&self) -> envoy::Bootstrap {
        envoy::Bootstrap {
            node: Some(Node {
                id: self.node_id(),
                cluster: self.cluster.clone(),
                metadata: Some(self.metadata.write()),
                ..Node::default()
            }),
            admin: Some(admin(&self.admin)),
            dynamic_resources: Some(DynamicResources {
                lds_config: Some(ads_without_timeout()),
                cds_config: Some(ads_without_timeout()),
                ads_config: Some(self.ads()),
                ..DynamicResources::default()
            }),
            hds_config: self.health.then(|| self.stream(ApiType::Grpc)),
            cluster_manager: self.load_reports.then(|| envoy::ClusterManager {
                load_stats_config: Some(self.stream(ApiType::Grpc)),
                ..envoy::ClusterManager::default()
            }),
            static_resources: Some(StaticResources {
                clusters: [self.control_plane_cluster()].into_iter().chain(self.access_log_cluster()).collect(),
                secrets: vec![self.control_plane_authority()],
                ..StaticResources::default()
            }),
            // A proxy has clusters for many services and uses few: the statistics of the others would take most of its
            // memory.
            deferred_stat_options: Some(DeferredStatOptions { enable_deferred_creation_stats: true }),
            stats_config: Some(StatsConfig { stats_tags: stats_tags(), ..StatsConfig::default() }),
            layered_runtime: Some(LayeredRuntime { layers: vec![regex_limits()] }),
            default_regex_engine: Some(TypedExtensionConfig {
                name: "envoy.regex_engines.google_re2".to_owned(),
                typed_config: Some(any(&GoogleRe2::default())),
            }),
            ..envoy::Bootstrap::default()
        }
    }

    fn ads(&self) -> ApiConfigSource {
        let api_type = match self.protocol {
            XdsProtocol::Delta => ApiType::DeltaGrpc,
            XdsProtocol::StateOfTheWorld => ApiType::Grpc,
        };
        ApiConfigSource { set_node_on_first_message_only: true, ..self.stream(api_type) }
    }

    fn stream(&self, api_type: ApiType) -> ApiConfigSource {
        let token = self.token.iter().map(|token| HeaderValue {
            key: "authorization".to_owned(),
            value: token.clone(),
            ..HeaderValue::default()
        });
        ApiConfigSource {
            api_type: api_type.into(),
            transport_api_version: ApiVersion::V3.into(),
            grpc_services: vec![GrpcService {
                initial_metadata: token.collect(),
                target_specifier: Some(TargetSpecifier::EnvoyGrpc(EnvoyGrpc {
                    cluster_name: names::CONTROL_PLANE.to_owned(),
                    ..EnvoyGrpc::default()
                })),
                ..GrpcService::default()
            }],
            ..ApiConfigSource::default()
        }
    }

    fn control_plane_cluster(&self) -> Cluster {
        let ControlPlane { host, port, ca: _ } = &self.control_plane;
        let is_ip = host.parse::<IpAddr>().is_ok();
        let discovery = if is_ip { DiscoveryType::Static } else { DiscoveryType::StrictDns };
        Cluster {
            upstream_connection_options: Some(UpstreamConnectionOptions {
                // Detects a control plane that vanished without closing the connection within half a minute.
                tcp_keepalive: Some(TcpKeepalive {
                    keepalive_probes: Some(3),
                    keepalive_time: Some(10),
                    keepalive_interval: Some(10),
                }),
                ..UpstreamConnectionOptions::default()
            }),
            transport_socket: Some(tls::socket(&control_plane_tls(host))),
            // `localhost` often resolves to both families, and a control plane on 127.0.0.1 does not listen on `::1`.
            dns_lookup_family: DnsLookupFamily::V4Preferred.into(),
            ..grpc_cluster(names::CONTROL_PLANE, discovery, address::tcp(host, *port))
        }
    }

    fn access_log_cluster(&self) -> Option<Cluster> {
        let path = names::access_log_pipe(self.metadata.workdir.as_deref()?, &self.name, &self.mesh);
        Some(grpc_cluster(names::ACCESS_LOG_SINK, DiscoveryType::Static, address::pipe(&path)))
    }

    fn control_plane_authority(&self) -> Secret {
        let ControlPlane { host, port: _, ca } = &self.control_plane;
        // The host may be a DNS name or an IP; a SAN of either type is accepted.
        let sans = [SanType::Dns, SanType::IpAddress].map(|kind| tls::san(kind, MatchPattern::Exact(host.clone())));
        let validation = CertificateValidationContext {
            trusted_ca: Some(tls::inline(ca)),
            match_typed_subject_alt_names: sans.into(),
            ..CertificateValidationContext::default()
        };
        Secret { name: names::CONTROL_PLANE_CA.to_owned(), r#type: Some(secret::Type::ValidationContext(validation)) }
    }
}

/// Readable, and accepted by Envoy.
pub fn to_yaml(bootstrap: &envoy::Bootstrap) -> String {
    let mut json =
        kodiak_envoy::json::to_json(bootstrap).expect("all messages in a bootstrap that was built are known");
    write_whole_numbers(&mut json);
    kodiak_model::yaml::to_string(&json)
}

/// Numbers in metadata are floats, and Envoy parses `15001.0` in YAML as a string, which it would report back as an
/// invalid port.
fn write_whole_numbers(json: &mut Json) {
    match json {
        Json::Number(number) if number.is_f64() => {
            // A whole number displays without a fraction; others do not parse.
            let whole = number.as_f64().and_then(|number| number.to_string().parse::<i64>().ok());
            if let Some(whole) = whole {
                *json = whole.into();
            }
        }
        Json::Array(values) => values.iter_mut().for_each(write_whole_numbers),
        Json::Object(fields) => fields.values_mut().for_each(write_whole_numbers),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => (),
    }
}

/// No initial fetch timeout: without its first resources a proxy could only reject traffic.
fn ads_without_timeout() -> ConfigSource {
    ConfigSource { initial_fetch_timeout: Some(duration(Duration::ZERO)), ..tls::over_ads() }
}

fn grpc_cluster(name: &str, discovery: DiscoveryType, address: Address) -> Cluster {
    Cluster {
        name: name.to_owned(),
        cluster_discovery_type: Some(ClusterDiscoveryType::Type(discovery.into())),
        connect_timeout: Some(duration(Duration::from_secs(1))),
        load_assignment: Some(clusters::assignment(name, address)),
        typed_extension_protocol_options: [clusters::http(Http::Two)].into(),
        ..Cluster::default()
    }
}

fn control_plane_tls(host: &str) -> UpstreamTlsContext {
    let authority = SdsSecretConfig { name: names::CONTROL_PLANE_CA.to_owned(), sds_config: None };
    UpstreamTlsContext {
        // An IP address is not a valid SNI (RFC 6066, section 3); the certificate is verified all the same.
        sni: if host.parse::<IpAddr>().is_ok() { String::new() } else { host.to_owned() },
        common_tls_context: Some(CommonTlsContext {
            tls_params: Some(TlsParameters {
                tls_minimum_protocol_version: TlsProtocol::TlSv12.into(),
                ..TlsParameters::default()
            }),
            validation_context_type: Some(ValidationContextType::ValidationContextSdsSecretConfig(authority)),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    }
}

fn admin(endpoint: &AdminEndpoint) -> envoy::Admin {
    let address = match endpoint {
        AdminEndpoint::Socket(path) => address::private_pipe(path),
        AdminEndpoint::Address { address, port } => address::tcp(address, *port),
    };
    let nowhere = FileAccessLog { path: "/dev/null".to_owned(), ..FileAccessLog::default() };
    envoy::Admin {
        access_log: vec![AccessLog {
            name: "envoy.access_loggers.file".to_owned(),
            config_type: Some(access_log::ConfigType::TypedConfig(any(&nowhere))),
            ..AccessLog::default()
        }],
        address: Some(address),
        ..envoy::Admin::default()
    }
}

/// Parts of metric names that become labels.
fn stats_tags() -> Vec<TagSpecifier> {
    let tag = |name: &str, regex: &str| TagSpecifier {
        tag_name: name.to_owned(),
        tag_value: Some(TagValue::Regex(regex.to_owned())),
    };
    vec![
        tag("name", r"^grpc\.((.+)\.)"),
        tag("status", r"^grpc.*streams_closed(_([0-9]+))"),
        tag("worker", r"(worker_([0-9]+)\.)"),
        tag("listener", r"((.+?)\.)rbac\."),
    ]
}

/// Complex regular expressions of users cause a warning in the log, never a rejected configuration.
fn regex_limits() -> RuntimeLayer {
    let number = |number: u32| Value { kind: Some(Kind::NumberValue(f64::from(number))) };
    let fields = [
        ("re2.max_program_size.error_level".to_owned(), number(u32::MAX)),
        ("re2.max_program_size.warn_level".to_owned(), number(1000)),
    ];
    RuntimeLayer {
        name: "kuma".to_owned(),
        layer_specifier: Some(LayerSpecifier::StaticLayer(Struct { fields: fields.into() })),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::testing::{at, check};

    fn bootstrap(host: &str) -> Bootstrap {
        Bootstrap {
            mesh: "default".to_owned(),
            name: "web-1".to_owned(),
            cluster: "web".to_owned(),
            metadata: NodeMetadata { workdir: Some("/tmp/dp".to_owned()), ..NodeMetadata::default() },
            control_plane: ControlPlane { host: host.to_owned(), port: 5678, ca: "CA".to_owned() },
            token: Some("secret-token".to_owned()),
            protocol: XdsProtocol::Delta,
            health: false,
            load_reports: false,
            admin: AdminEndpoint::Socket("/tmp/dp/kuma-envoy-admin.sock".to_owned()),
        }
    }

    #[test]
    fn everything_comes_over_one_stream_with_the_token() {
        let message = bootstrap("cp.local").message();
        check(
            message.dynamic_resources.as_ref().unwrap(),
            r"
            lds_config: {ads: {}, initial_fetch_timeout: 0s, resource_api_version: V3}
            cds_config: {ads: {}, initial_fetch_timeout: 0s, resource_api_version: V3}
            ads_config:
              api_type: DELTA_GRPC
              transport_api_version: V3
              set_node_on_first_message_only: true
              grpc_services:
              - envoy_grpc: {cluster_name: ads_cluster}
                initial_metadata: [{key: authorization, value: secret-token}]
            ",
        );
        assert_eq!(at(&message, "/node/id"), "default.web-1");
        assert_eq!(at(&message, "/node/metadata/workdir"), "/tmp/dp");
        assert_eq!(
            at(&message, "/admin/address"),
            json!({"pipe": {"path": "/tmp/dp/kuma-envoy-admin.sock", "mode": 384}})
        );
        assert_eq!(at(&message, "/deferredStatOptions/enableDeferredCreationStats"), true);
        assert_eq!(at(&message, "/hdsConfig"), Json::Null);
        assert_eq!(at(&message, "/clusterManager"), Json::Null);
    }

    #[test]
    fn hds_uses_the_same_control_plane_and_token() {
        let message = Bootstrap { health: true, ..bootstrap("cp.local") }.message();
        check(
            message.hds_config.as_ref().unwrap(),
            r"
            api_type: GRPC
            transport_api_version: V3
            grpc_services:
            - envoy_grpc: {cluster_name: ads_cluster}
              initial_metadata: [{key: authorization, value: secret-token}]
            ",
        );
    }

    #[test]
    fn load_reports_use_the_same_control_plane_and_token() {
        let message = Bootstrap { load_reports: true, ..bootstrap("cp.local") }.message();
        check(
            message.cluster_manager.unwrap().load_stats_config.as_ref().unwrap(),
            r"
            api_type: GRPC
            transport_api_version: V3
            grpc_services:
            - envoy_grpc: {cluster_name: ads_cluster}
              initial_metadata: [{key: authorization, value: secret-token}]
            ",
        );
    }

    #[test]
    fn control_plane_is_resolved_and_its_certificate_verified() {
        for (host, kind) in [("cp.local", "STRICT_DNS"), ("10.0.0.1", "STATIC"), ("fd00::1", "STATIC")] {
            let message = bootstrap(host).message();
            let cluster = at(&message, "/staticResources/clusters/0");
            assert_eq!((&cluster["name"], &cluster["type"]), (&json!("ads_cluster"), &json!(kind)));
            let tls = &cluster["transportSocket"]["typedConfig"];
            assert_eq!(tls["sni"], if kind == "STATIC" { Json::Null } else { json!(host) });
            let authority = &tls["commonTlsContext"]["validationContextSdsSecretConfig"];
            assert_eq!(*authority, json!({"name": "cp_validation_ctx"}));
            let sans = at(&message, "/staticResources/secrets/0/validationContext/matchTypedSubjectAltNames");
            let exact = json!({"exact": host});
            assert_eq!(
                sans,
                json!([{"sanType": "DNS", "matcher": exact}, {"sanType": "IP_ADDRESS", "matcher": exact}])
            );
        }
    }

    #[test]
    fn no_access_log_socket_without_workdir_and_token_is_hidden() {
        let mut bootstrap = bootstrap("cp.local");
        let path = "/staticResources/clusters/1/loadAssignment/endpoints/0/lbEndpoints/0/endpoint/address/pipe/path";
        assert_eq!(at(&bootstrap.message(), path), "/tmp/dp/kuma-al-web-1-default.sock");
        bootstrap.metadata.workdir = None;
        assert_eq!(at(&bootstrap.message(), "/staticResources/clusters/1"), Json::Null);
        assert!(!format!("{bootstrap:?}").contains("token"));
    }

    #[test]
    fn whole_numbers_have_no_fraction() {
        let mut json = serde_json::json!({ "port": 15001.0, "list": [0.5, -2.0, 1e300], "count": 3 });
        write_whole_numbers(&mut json);
        assert_eq!(json, serde_json::json!({ "port": 15001, "list": [0.5, -2, 1e300], "count": 3 }));
    }

    #[test]
    fn renders_readable_yaml() {
        let yaml = to_yaml(&bootstrap("cp.local").message());
        let document = kodiak_model::yaml::parse(&yaml).unwrap().remove(0).value;
        let read: envoy::Bootstrap = kodiak_envoy::json::from_json(&document).unwrap();
        assert_eq!(read, bootstrap("cp.local").message());
    }
}
