//! Secrets of the SPIRE agent beside a proxy, over the SDS of its Unix socket.

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::core::v3::api_config_source::ApiType;
use kodiak_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use kodiak_envoy::envoy::config::core::v3::grpc_service::{GoogleGrpc, TargetSpecifier};
use kodiak_envoy::envoy::config::core::v3::{ApiConfigSource, ApiVersion, ConfigSource, GrpcService};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{CertificateValidationContext, SdsSecretConfig};
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use crate::{input::SpireAgent, names, tls};

/// Certificate of the proxy, and the CAs of all domains that the agent trusts. The agent does not know which SPIFFE IDs
/// belong to a destination, so these are beside its secret: a change of them changes the cluster.
pub(crate) fn secrets(agent: &SpireAgent, accepted: &[String]) -> (SdsSecretConfig, ValidationContextType) {
    let secret = |name: &str| SdsSecretConfig { name: name.to_owned(), sds_config: Some(from_agent(agent)) };
    let sans = accepted.iter().map(|id| tls::san(SanType::Uri, MatchPattern::Exact(id.clone())));
    let accepted = CertificateValidationContext {
        match_typed_subject_alt_names: sans.collect(),
        ..CertificateValidationContext::default()
    };
    let both = CombinedCertificateValidationContext {
        default_validation_context: Some(accepted),
        validation_context_sds_secret_config: Some(secret(names::SPIRE_TRUST_BUNDLE)),
        ..CombinedCertificateValidationContext::default()
    };
    (secret(&agent.spiffe_id), ValidationContextType::CombinedValidationContext(both))
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
