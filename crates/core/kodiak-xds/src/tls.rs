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

/// Callers in the mesh send this ALPN: an inbound that also accepts other TLS identifies them by it.
pub(crate) const ALPN: &str = "kuma";

/// Accepts only callers of the same mesh.
pub fn downstream(mesh: &str) -> DownstreamTlsContext {
    let caller = MatchPattern::Prefix(names::identity_prefix(mesh));
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(mutual(mesh, vec![caller])),
        ..DownstreamTlsContext::default()
    }
}

/// Verifies that the server has one of the expected identities.
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
                validation_context_sds_secret_config: Some(secret(names::ca_secret(mesh))),
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

/// Configuration source: the existing ADS stream.
pub(crate) fn over_ads() -> ConfigSource {
    ConfigSource {
        resource_api_version: ApiVersion::V3.into(),
        config_source_specifier: Some(ConfigSourceSpecifier::Ads(AggregatedConfigSource {})),
        ..ConfigSource::default()
    }
}

/// Inline PEM.
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
    fn inbound_accepts_callers_of_its_mesh() {
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
    fn client_verifies_the_servers_identity() {
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
    fn without_identities_any_identity_of_the_mesh_is_accepted() {
        let context = upstream("default", &Peer { sni: "a".to_owned(), identities: Vec::new() });
        let expected = "/commonTlsContext/combinedValidationContext/defaultValidationContext/matchTypedSubjectAltNames";
        assert_eq!(at(&context, expected)[0]["matcher"]["prefix"], "spiffe://default/");
    }
}
