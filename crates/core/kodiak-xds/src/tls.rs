//! TLS between proxies of a mesh.

use kodiak_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use kodiak_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, TransportSocket, data_source, transport_socket,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, SubjectAltNameMatcher,
    UpstreamTlsContext,
};
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use kodiak_envoy::{TypeUrl, any};

use crate::input::OutboundCluster;
use crate::names;

/// Callers of the mesh say so by this ALPN: an inbound that takes other TLS too knows them by it.
pub(crate) const ALPN: &str = "kuma";

/// Only callers of the same mesh come in.
pub fn downstream(mesh: &str) -> DownstreamTlsContext {
    let caller = MatchPattern::Prefix(names::identity_prefix(mesh));
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(mutual(mesh, caller)),
        ..DownstreamTlsContext::default()
    }
}

/// Who answers must be the service that is called.
pub fn upstream(cluster: &OutboundCluster) -> UpstreamTlsContext {
    let service = MatchPattern::Exact(names::service_identity(&cluster.mesh, names::service(&cluster.tags)));
    UpstreamTlsContext {
        sni: names::sni(&cluster.tags, &cluster.mesh),
        common_tls_context: Some(CommonTlsContext {
            alpn_protocols: vec![ALPN.to_owned()],
            ..mutual(&cluster.mesh, service)
        }),
        ..UpstreamTlsContext::default()
    }
}

fn mutual(mesh: &str, peer: MatchPattern) -> CommonTlsContext {
    let expected = CertificateValidationContext {
        match_typed_subject_alt_names: vec![san(SanType::Uri, peer)],
        ..CertificateValidationContext::default()
    };
    CommonTlsContext {
        tls_certificate_sds_secret_configs: vec![secret(names::identity_secret(mesh))],
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(
            CombinedCertificateValidationContext {
                default_validation_context: Some(expected),
                validation_context_sds_secret_config: Some(secret(names::authority_secret(mesh))),
                ..CombinedCertificateValidationContext::default()
            },
        )),
        ..CommonTlsContext::default()
    }
}

pub(crate) fn san(san_type: SanType, pattern: MatchPattern) -> SubjectAltNameMatcher {
    SubjectAltNameMatcher {
        san_type: san_type.into(),
        matcher: Some(StringMatcher { match_pattern: Some(pattern), ..StringMatcher::default() }),
        ..SubjectAltNameMatcher::default()
    }
}

pub(crate) fn socket<M: TypeUrl>(context: &M) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(any(context))),
    }
}

/// What comes over the stream that the proxy already has.
pub(crate) fn over_ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

/// PEM inside the message.
pub(crate) fn inline(text: &str) -> DataSource {
    let specifier = data_source::Specifier::InlineBytes(text.as_bytes().to_vec().into());
    DataSource { specifier: Some(specifier), ..DataSource::default() }
}

fn secret(name: String) -> SdsSecretConfig {
    SdsSecretConfig { name, sds_config: Some(over_ads()) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::testing::{check, tags};

    #[test]
    fn an_inbound_takes_callers_of_its_mesh() {
        check(
            &downstream("default"),
            r#"
            require_client_certificate: true
            common_tls_context:
              combined_validation_context:
                default_validation_context:
                  match_typed_subject_alt_names: [{san_type: URI, matcher: {prefix: "spiffe://default/"}}]
                validation_context_sds_secret_config:
                  name: "mesh_ca:secret:default"
                  sds_config: {ads: {}, resource_api_version: V3}
              tls_certificate_sds_secret_configs:
              - name: "identity_cert:secret:default"
                sds_config: {ads: {}, resource_api_version: V3}
            "#,
        );
    }

    #[test]
    fn a_caller_expects_the_service_and_names_the_subset() {
        let cluster = OutboundCluster {
            name: "backend-1".into(),
            mesh: "default".into(),
            tags: Arc::new(tags(&[("kuma.io/service", "backend"), ("version", "v1")])),
            mtls: true,
            confs: Arc::default(),
        };
        check(
            &upstream(&cluster),
            r#"
            sni: "backend{mesh=default,version=v1}"
            common_tls_context:
              alpn_protocols: [kuma]
              combined_validation_context:
                default_validation_context:
                  match_typed_subject_alt_names: [{san_type: URI, matcher: {exact: "spiffe://default/backend"}}]
                validation_context_sds_secret_config:
                  name: "mesh_ca:secret:default"
                  sds_config: {ads: {}, resource_api_version: V3}
              tls_certificate_sds_secret_configs:
              - name: "identity_cert:secret:default"
                sds_config: {ads: {}, resource_api_version: V3}
            "#,
        );
    }
}
