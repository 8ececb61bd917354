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

use std::sync::Arc;

use crate::input::{Peer, TlsSource};
use crate::{names, spire};

/// Callers in the mesh send this ALPN: an inbound that also accepts other TLS identifies them by it.
pub(crate) const ALPN: &str = "kuma";

/// Accepts only callers of the mesh, or of these trust domains.
pub fn downstream(mesh: &str, source: &TlsSource, trust_domains: &[Arc<str>]) -> DownstreamTlsContext {
    let callers = match source {
        TlsSource::MeshCa => vec![names::identity_prefix(mesh)],
        TlsSource::TrustBundle => trust_domains.iter().map(|domain| names::identity_prefix(domain)).collect(),
        // The agent decides which domains are trusted.
        TlsSource::Spire(_) => Vec::new(),
    };
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(mutual(mesh, source, callers.into_iter().map(MatchPattern::Prefix).collect())),
        ..DownstreamTlsContext::default()
    }
}

/// Verifies that the server has one of the expected identities.
pub fn upstream(mesh: &str, peer: &Peer) -> UpstreamTlsContext {
    let mut expected: Vec<_> = peer.identities.iter().cloned().map(MatchPattern::Exact).collect();
    // A trust bundle accepts none but the SPIFFE IDs of its domains.
    if expected.is_empty() && peer.tls == TlsSource::MeshCa {
        expected.push(MatchPattern::Prefix(names::identity_prefix(mesh)));
    }
    let common = mutual(mesh, &peer.tls, expected);
    UpstreamTlsContext {
        sni: peer.sni.clone(),
        common_tls_context: Some(CommonTlsContext { alpn_protocols: vec![ALPN.to_owned()], ..common }),
        ..UpstreamTlsContext::default()
    }
}

fn mutual(mesh: &str, source: &TlsSource, peers: Vec<MatchPattern>) -> CommonTlsContext {
    let expected = CertificateValidationContext {
        match_typed_subject_alt_names: peers.into_iter().map(|peer| san(SanType::Uri, peer)).collect(),
        ..CertificateValidationContext::default()
    };
    let (certificate, trusted) = match source {
        TlsSource::MeshCa => (secret(names::identity_secret(mesh)), secret(names::ca_secret(mesh))),
        TlsSource::TrustBundle => (secret(names::identity_secret(mesh)), secret(names::TRUST_BUNDLE.to_owned())),
        TlsSource::Spire(agent) => spire::secrets(agent),
    };
    CommonTlsContext {
        tls_certificate_sds_secret_configs: vec![certificate],
        validation_context_type: Some(ValidationContextType::CombinedValidationContext(
            CombinedCertificateValidationContext {
                default_validation_context: Some(expected),
                validation_context_sds_secret_config: Some(trusted),
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
            &downstream("default", &TlsSource::MeshCa, &[]),
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
        let peer = Peer { sni: "backend{mesh=default,version=v1}".to_owned(), identities, ..Peer::default() };
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
        let context = upstream("default", &Peer { sni: "a".to_owned(), ..Peer::default() });
        let expected = "/commonTlsContext/combinedValidationContext/defaultValidationContext/matchTypedSubjectAltNames";
        assert_eq!(at(&context, expected)[0]["matcher"]["prefix"], "spiffe://default/");
    }

    #[test]
    fn trust_bundle_accepts_callers_of_its_domains_and_the_expected_server() {
        let context = downstream("default", &TlsSource::TrustBundle, &["a.local".into(), "default".into()]);
        let root = "/commonTlsContext/combinedValidationContext";
        let expected = format!("{root}/defaultValidationContext/matchTypedSubjectAltNames");
        assert_eq!(at(&context, &expected)[0]["matcher"]["prefix"], "spiffe://a.local/");
        assert_eq!(at(&context, &expected)[1]["matcher"]["prefix"], "spiffe://default/");
        let secret = format!("{root}/validationContextSdsSecretConfig");
        assert_eq!(at(&context, &secret)["name"], "system_trust_bundle");
        let identities = vec!["spiffe://a.local/web".to_owned()];
        let context = upstream("default", &Peer { identities, tls: TlsSource::TrustBundle, ..Peer::default() });
        assert_eq!(at(&context, &expected)[0]["matcher"]["exact"], "spiffe://a.local/web");
        assert_eq!(at(&context, &secret)["name"], "system_trust_bundle");
    }
}
