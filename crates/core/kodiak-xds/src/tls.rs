//! TLS between proxies of a mesh.

use kodiak_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use kodiak_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, TransportSocket, data_source, transport_socket,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::{
    CombinedCertificateValidationContext, ValidationContextType,
};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    self as envoy, CertificateValidationContext, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig,
    SubjectAltNameMatcher, UpstreamTlsContext,
};
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use kodiak_envoy::{TypeUrl, any};
use kodiak_model::tls::TlsVersion;

use std::sync::Arc;

use crate::input::{Peer, TlsParameters, TlsSource};
use crate::{names, spire};

/// Callers in the mesh send this ALPN: an inbound that also accepts other TLS identifies them by it.
pub(crate) const ALPN: &str = "kuma";

/// Envoy's minimum version by default, and as a client also its maximum.
const ENVOY_VERSION: TlsVersion = TlsVersion::Tls12;

/// Accepts only callers of the mesh, or of these trust domains.
pub fn downstream(
    mesh: &str,
    source: &TlsSource,
    trust_domains: &[Arc<str>],
    versions_and_ciphers: &TlsParameters,
) -> DownstreamTlsContext {
    let callers = match source {
        TlsSource::MeshCa => vec![names::identity_prefix(mesh)],
        TlsSource::TrustBundle => trust_domains.iter().map(|domain| names::identity_prefix(domain)).collect(),
        // The agent decides which domains are trusted.
        TlsSource::Spire(_) => Vec::new(),
    };
    let common = mutual(mesh, source, callers.into_iter().map(MatchPattern::Prefix).collect());
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(CommonTlsContext { tls_params: parameters(versions_and_ciphers), ..common }),
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
        common_tls_context: Some(CommonTlsContext {
            alpn_protocols: vec![ALPN.to_owned()],
            tls_params: parameters(&peer.tls_parameters),
            ..common
        }),
        ..UpstreamTlsContext::default()
    }
}

/// As a client Envoy offers only TLS 1.2 by default: setting one bound must move the other too, or no version remains.
pub(crate) fn parameters(configured: &TlsParameters) -> Option<envoy::TlsParameters> {
    let TlsParameters { min, max, ciphers } = configured;
    (*configured != TlsParameters::default()).then(|| envoy::TlsParameters {
        tls_minimum_protocol_version: protocol(min.or(max.filter(|version| *version < ENVOY_VERSION))).into(),
        tls_maximum_protocol_version: protocol(max.or(min.filter(|version| *version > ENVOY_VERSION))).into(),
        cipher_suites: ciphers.iter().map(ToString::to_string).collect(),
        ..envoy::TlsParameters::default()
    })
}

fn protocol(version: Option<TlsVersion>) -> TlsProtocol {
    match version {
        None | Some(TlsVersion::Auto) => TlsProtocol::TlsAuto,
        Some(TlsVersion::Tls10) => TlsProtocol::TlSv10,
        Some(TlsVersion::Tls11) => TlsProtocol::TlSv11,
        Some(TlsVersion::Tls12) => TlsProtocol::TlSv12,
        Some(TlsVersion::Tls13) => TlsProtocol::TlSv13,
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
            &downstream("default", &TlsSource::MeshCa, &[], &TlsParameters::default()),
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
    fn servers_and_clients_have_the_same_versions_and_ciphers() {
        let cipher = "ECDHE-ECDSA-AES256-GCM-SHA384";
        for (min, max, shown) in [
            (Some(TlsVersion::Tls12), Some(TlsVersion::Tls13), ["TLSv1_2", "TLSv1_3"]),
            // One bound alone would leave a client without any version.
            (Some(TlsVersion::Tls13), None, ["TLSv1_3", "TLSv1_3"]),
            (None, Some(TlsVersion::Tls11), ["TLSv1_1", "TLSv1_1"]),
        ] {
            let tls_parameters = TlsParameters { min, max, ciphers: vec![cipher] };
            let server = downstream("default", &TlsSource::MeshCa, &[], &tls_parameters);
            let client = upstream("default", &Peer { tls_parameters, ..Peer::default() });
            for made in [at(&server, "/commonTlsContext/tlsParams"), at(&client, "/commonTlsContext/tlsParams")] {
                assert_eq!(made["tlsMinimumProtocolVersion"], shown[0]);
                assert_eq!(made["tlsMaximumProtocolVersion"], shown[1]);
                assert_eq!(made["cipherSuites"][0], cipher);
            }
        }
    }

    #[test]
    fn without_identities_any_identity_of_the_mesh_is_accepted() {
        let context = upstream("default", &Peer { sni: "a".to_owned(), ..Peer::default() });
        let expected = "/commonTlsContext/combinedValidationContext/defaultValidationContext/matchTypedSubjectAltNames";
        assert_eq!(at(&context, expected)[0]["matcher"]["prefix"], "spiffe://default/");
    }

    #[test]
    fn trust_bundle_accepts_callers_of_its_domains_and_the_expected_server() {
        let domains = ["a.local".into(), "default".into()];
        let context = downstream("default", &TlsSource::TrustBundle, &domains, &TlsParameters::default());
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
