//! Secrets of the SPIRE agent beside a proxy, over the SDS of its Unix socket.

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::core::v3::api_config_source::ApiType;
use kodiak_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use kodiak_envoy::envoy::config::core::v3::grpc_service::{GoogleGrpc, TargetSpecifier};
use kodiak_envoy::envoy::config::core::v3::{ApiConfigSource, ApiVersion, ConfigSource, GrpcService};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::SdsSecretConfig;

use crate::{input::SpireAgent, names};

/// Certificate of the proxy, and the CAs of all domains that the agent trusts.
pub(crate) fn secrets(agent: &SpireAgent) -> (SdsSecretConfig, SdsSecretConfig) {
    let secret = |name: &str| SdsSecretConfig { name: name.to_owned(), sds_config: Some(from_agent(agent)) };
    (secret(&agent.spiffe_id), secret(names::SPIRE_TRUST_BUNDLE))
}

/// Envoy lets SDS use no cluster of CDS, but a socket.
fn from_agent(agent: &SpireAgent) -> ConfigSource {
    let socket = GoogleGrpc {
        target_uri: format!("unix:{}", agent.socket),
        stat_prefix: names::SPIRE_AGENT.to_owned(),
        ..GoogleGrpc::default()
    };
    let service = GrpcService {
        target_specifier: Some(TargetSpecifier::GoogleGrpc(socket)),
        timeout: Some(duration(agent.timeout)),
        ..GrpcService::default()
    };
    let source = ApiConfigSource {
        api_type: ApiType::Grpc.into(),
        transport_api_version: ApiVersion::V3.into(),
        grpc_services: vec![service],
        ..ApiConfigSource::default()
    };
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::ApiConfigSource(source)),
        ..ConfigSource::default()
    }
}
