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

use crate::input::Peer;
use crate::names;

/// Callers of the mesh say so by this ALPN: an inbound that takes other TLS too knows them by it.
pub(crate) const ALPN: &str = "kuma";

/// Only callers of the same mesh come in.
pub fn downstream(mesh: &str) -> DownstreamTlsContext {
    let caller = MatchPattern::Prefix(names::identity_prefix(mesh));
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(mutual(mesh, vec![caller])),
        ..DownstreamTlsContext::default()
    }
}

/// Who answers must be who is called.
pub fn upstream(mesh: &str, peer: &Peer) -> UpstreamTlsContext {
    let mut expected: Vec<_> = peer.identities.iter().cloned().map(MatchPattern::Exact).collect();
    if expected.is_empty() {
        expected.push(MatchPattern::Prefix(names::identity_prefix(mesh)));
    }
    UpstreamTlsContext {
        sni: peer.sni.clone(),
        common_tls_context: Some(CommonTlsContext { alpn_protocols: vec![ALPN.to_owned()], ..mutual(mesh, expected) }),
        ..UpstreamTlsContext::default()
    }
}

fn mutual(mesh: &str, peers: Vec<MatchPattern>) -> CommonTlsContext {
    let expected = CertificateValidationContext {
        match_typed_subject_alt_names: peers.into_iter().map(|peer| san(SanType::Uri, peer)).collect(),
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
    use super::*;
    use crate::testing::{at, check};

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
    fn a_caller_expects_who_it_calls() {
        let identities = vec!["spiffe://default/backend".to_owned()];
        let peer = Peer { sni: "backend{mesh=default,version=v1}".to_owned(), identities };
        check(
            &upstream("default", &peer),
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
    #[test]
    fn where_nobody_is_known_yet_anybody_of_the_mesh_may_answer() {
        let context = upstream("default", &Peer { sni: "a".to_owned(), identities: Vec::new() });
        let expected = "/commonTlsContext/combinedValidationContext/defaultValidationContext/matchTypedSubjectAltNames";
        assert_eq!(at(&context, expected)[0]["matcher"]["prefix"], "spiffe://default/");
    }
}
