//! TLS context for destinations outside the mesh.

use kodiak_envoy::envoy::config::core::v3::{DataSource, data_source};
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::common_tls_context::ValidationContextType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, CommonTlsContext, SubjectAltNameMatcher, TlsCertificate, UpstreamTlsContext,
};
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use crate::input::{ExternalCa, ExternalName, ExternalTls, TlsParameters};
use crate::tls;

pub(super) fn upstream(tls_settings: &ExternalTls) -> UpstreamTlsContext {
    let ExternalTls { versions, allow_renegotiation, sni, names, authority, client } = tls_settings;
    let client = client.as_ref().map(|(certificate, key)| TlsCertificate {
        certificate_chain: Some(tls::inline(certificate)),
        private_key: Some(tls::inline(key)),
        ..TlsCertificate::default()
    });
    UpstreamTlsContext {
        sni: sni.clone().unwrap_or_default(),
        allow_renegotiation: *allow_renegotiation,
        common_tls_context: Some(CommonTlsContext {
            tls_params: tls::parameters(&TlsParameters { min: versions.0, max: versions.1, ciphers: Vec::new() }),
            tls_certificates: client.into_iter().collect(),
            validation_context_type: validation(authority, names).map(ValidationContextType::ValidationContext),
            ..CommonTlsContext::default()
        }),
        ..UpstreamTlsContext::default()
    }
}

/// Envoy rejects SANs without a CA: without one, every SAN could be forged.
fn validation(authority: &ExternalCa, names: &[ExternalName]) -> Option<CertificateValidationContext> {
    let trusted = match authority {
        ExternalCa::Unverified => return None,
        ExternalCa::Given(certificates) => tls::inline(certificates),
        ExternalCa::System(path) => file(path),
    };
    Some(CertificateValidationContext {
        trusted_ca: Some(trusted),
        match_typed_subject_alt_names: names.iter().flat_map(either_type).collect(),
        ..CertificateValidationContext::default()
    })
}

/// A SAN may be a DNS name or an IP address, and users do not say which.
fn either_type(name: &ExternalName) -> [SubjectAltNameMatcher; 2] {
    let pattern = match name {
        ExternalName::Exact(name) => MatchPattern::Exact(name.clone()),
        ExternalName::Prefix(prefix) => MatchPattern::Prefix(prefix.clone()),
    };
    [tls::san(SanType::Dns, pattern.clone()), tls::san(SanType::IpAddress, pattern)]
}

fn file(path: &str) -> DataSource {
    DataSource { specifier: Some(data_source::Specifier::Filename(path.to_owned())), ..DataSource::default() }
}
