//! TLS between proxies of a mesh.
//!
//! **Invariant:** contexts name secrets and contain no trust: neither CAs nor SPIFFE IDs. A change of trust is a change of
//! secrets, so listeners and clusters stay as they are, and connections stay open (ADR 021). SPIRE is the exception: the
//! secrets of its agent have no SPIFFE IDs.

use kodiak_envoy::envoy::config::cluster::v3::cluster::TransportSocketMatch;
use kodiak_envoy::envoy::config::core::v3::config_source::ConfigSourceSpecifier;
use kodiak_envoy::envoy::config::core::v3::{
    AggregatedConfigSource, ApiVersion, ConfigSource, DataSource, TransportSocket, data_source, transport_socket,
};
use kodiak_envoy::envoy::extensions::transport_sockets::raw_buffer::v3::RawBuffer;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::tls_parameters::TlsProtocol;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    self as envoy, CommonTlsContext, DownstreamTlsContext, SdsSecretConfig, SubjectAltNameMatcher, UpstreamTlsContext,
};
use kodiak_envoy::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use kodiak_envoy::google::protobuf::Struct;
use kodiak_envoy::{TypeUrl, any};
use kodiak_model::tls::TlsVersion;

use crate::input::{Peer, TlsParameters, TlsSource};
use crate::{metadata, names, spire};

/// Callers in the mesh send this ALPN: an inbound that also accepts other TLS identifies them by it.
pub(crate) const ALPN: &str = "kuma";

/// Envoy's minimum version by default, and as a client also its maximum.
const ENVOY_VERSION: TlsVersion = TlsVersion::Tls12;

/// Accepts only callers with a certificate of the mesh.
pub fn downstream(mesh: &str, source: &TlsSource, versions_and_ciphers: &TlsParameters) -> DownstreamTlsContext {
    let common = mutual(mesh, source, names::validation_secret(mesh));
    DownstreamTlsContext {
        require_client_certificate: Some(true),
        common_tls_context: Some(CommonTlsContext { tls_params: parameters(versions_and_ciphers), ..common }),
        ..DownstreamTlsContext::default()
    }
}

/// Verifies the server by the validation context `validation`.
pub fn upstream(validation: String, mesh: &str, peer: &Peer) -> UpstreamTlsContext {
    let common = mutual(mesh, &peer.tls, validation);
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

fn mutual(mesh: &str, source: &TlsSource, validation: String) -> CommonTlsContext {
    let (certificate, validation) = match source {
        TlsSource::ControlPlane => {
            let validation = ValidationContextType::ValidationContextSdsSecretConfig(secret(validation));
            (secret(names::identity_secret(mesh)), validation)
        }
        TlsSource::Spire { agent, accepted } => spire::secrets(agent, accepted),
    };
    CommonTlsContext {
        tls_certificate_sds_secret_configs: vec![certificate],
        validation_context_type: Some(validation),
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

/// Endpoints that are called in plain text, beside others with TLS.
pub(crate) fn plaintext_match() -> TransportSocketMatch {
    let marked = Struct { fields: [(names::PLAINTEXT.to_owned(), metadata::boolean(true))].into() };
    TransportSocketMatch {
        name: "plaintext".to_owned(),
        r#match: Some(marked),
        transport_socket: Some(TransportSocket {
            name: "envoy.transport_sockets.raw_buffer".to_owned(),
            config_type: Some(transport_socket::ConfigType::TypedConfig(any(&RawBuffer::default()))),
        }),
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
    fn inbound_verifies_callers_by_a_secret_with_a_stable_name() {
        check(
            &downstream("default", &TlsSource::ControlPlane, &TlsParameters::default()),
            r#"
            require_client_certificate: true
            common_tls_context:
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
    fn client_verifies_servers_by_a_secret_of_the_cluster() {
        let peer = Peer { sni: "backend{mesh=default,version=v1}".to_owned(), ..Peer::default() };
        check(
            &upstream(names::server_validation_secret("default", "backend"), "default", &peer),
            r#"
            sni: "backend{mesh=default,version=v1}"
            common_tls_context:
              alpn_protocols: [kuma]
              validation_context_sds_secret_config:
                name: "mesh_ca:secret:default:backend"
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
            let server = downstream("default", &TlsSource::ControlPlane, &tls_parameters);
            let client = upstream(String::new(), "default", &Peer { tls_parameters, ..Peer::default() });
            for made in [at(&server, "/commonTlsContext/tlsParams"), at(&client, "/commonTlsContext/tlsParams")] {
                assert_eq!(made["tlsMinimumProtocolVersion"], shown[0]);
                assert_eq!(made["tlsMaximumProtocolVersion"], shown[1]);
                assert_eq!(made["cipherSuites"][0], cipher);
            }
        }
    }
}
