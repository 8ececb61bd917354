//! Secrets: certificates of proxies, and validation contexts.

use std::sync::Arc;

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::TypedExtensionConfig;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::spiffe_cert_validator_config::TrustDomain;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, SpiffeCertValidatorConfig, TlsCertificate, secret,
};

use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::subject_alt_name_matcher::SanType;
use kodiak_envoy::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use crate::input::{Cas, Identity, Validation};
use crate::names;
use crate::tls::{inline, san};

pub fn identity(mesh: &str, identity: &Identity) -> Secret {
    let certificate = TlsCertificate {
        certificate_chain: Some(inline(&identity.certificate)),
        private_key: Some(inline(&identity.key)),
        ..TlsCertificate::default()
    };
    Secret { name: names::identity_secret(mesh), r#type: Some(secret::Type::TlsCertificate(certificate)) }
}

/// Trusted CAs and accepted SPIFFE IDs.
pub fn validation(validation: &Validation) -> Secret {
    let trusted = match validation.trusted.get() {
        Cas::Mesh { mesh: _, roots } => {
            CertificateValidationContext { trusted_ca: Some(inline(roots)), ..CertificateValidationContext::default() }
        }
        Cas::Domains(domains) => CertificateValidationContext {
            custom_validator_config: Some(by_trust_domain(domains)),
            ..CertificateValidationContext::default()
        },
    };
    let context = CertificateValidationContext {
        match_typed_subject_alt_names: accepted(validation).map(|pattern| san(SanType::Uri, pattern)).collect(),
        ..trusted
    };
    Secret { name: validation.name.to_string(), r#type: Some(secret::Type::ValidationContext(context)) }
}

fn accepted(validation: &Validation) -> impl Iterator<Item = MatchPattern> {
    let exact = validation.accepted.iter().cloned().map(MatchPattern::Exact);
    let prefixes: Vec<String> = match validation.trusted.get() {
        _ if !validation.accepted.is_empty() => Vec::new(),
        Cas::Mesh { mesh, roots: _ } => vec![names::identity_prefix(mesh)],
        Cas::Domains(domains) => domains.iter().map(|(domain, _)| names::identity_prefix(domain)).collect(),
    };
    exact.chain(prefixes.into_iter().map(MatchPattern::Prefix))
}

/// A certificate is verified by the CAs of the domain of its SPIFFE ID.
fn by_trust_domain(domains: &[(Arc<str>, Arc<str>)]) -> TypedExtensionConfig {
    let domain = |(name, roots): &(Arc<str>, Arc<str>)| TrustDomain {
        name: name.to_string(),
        trust_bundle: Some(inline(roots)),
        ..TrustDomain::default()
    };
    let validator = SpiffeCertValidatorConfig {
        trust_domains: domains.iter().map(domain).collect(),
        ..SpiffeCertValidatorConfig::default()
    };
    TypedExtensionConfig { name: "envoy.tls.cert_validator.spiffe".to_owned(), typed_config: Some(any(&validator)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::TrustedCas;
    use crate::testing::check;

    #[test]
    fn a_certificate_comes_with_its_key() {
        let secret = identity("default", &Identity { certificate: "CERT".into(), key: "KEY".into() });
        let expected = r#"
            name: "identity_cert:secret:default"
            tls_certificate: {certificate_chain: {inline_bytes: Q0VSVA==}, private_key: {inline_bytes: S0VZ}}
        "#;
        check(&secret, expected);
    }

    fn mesh() -> TrustedCas {
        TrustedCas::new(Cas::Mesh { mesh: "default".into(), roots: "CA".into() })
    }

    #[test]
    fn any_identity_of_the_mesh_is_accepted_by_its_prefix() {
        let expected = r#"
            name: "mesh_ca:secret:default"
            validation_context:
              trusted_ca: {inline_bytes: Q0E=}
              match_typed_subject_alt_names: [{san_type: URI, matcher: {prefix: "spiffe://default/"}}]
        "#;
        let name = names::validation_secret("default").into();
        check(&validation(&Validation { name, trusted: mesh(), accepted: Vec::new() }), expected);
    }

    #[test]
    fn server_has_one_of_the_expected_identities() {
        let expected = r#"
            name: "mesh_ca:secret:default:backend"
            validation_context:
              trusted_ca: {inline_bytes: Q0E=}
              match_typed_subject_alt_names: [{san_type: URI, matcher: {exact: "spiffe://default/backend"}}]
        "#;
        let name = names::server_validation_secret("default", "backend").into();
        let accepted = vec!["spiffe://default/backend".to_owned()];
        check(&validation(&Validation { name, trusted: mesh(), accepted }), expected);
    }

    #[test]
    fn each_trust_domain_has_its_own_roots() {
        let domains: [(Arc<str>, Arc<str>); 2] = [("a.local".into(), "CA".into()), ("default".into(), "CA".into())];
        let trusted = TrustedCas::new(Cas::Domains(domains.into()));
        let expected = |matchers: &str| {
            format!(
                r#"
            name: x
            validation_context:
              match_typed_subject_alt_names: [{matchers}]
              custom_validator_config:
                name: envoy.tls.cert_validator.spiffe
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig
                  trust_domains:
                  - {{name: a.local, trust_bundle: {{inline_bytes: Q0E=}}}}
                  - {{name: default, trust_bundle: {{inline_bytes: Q0E=}}}}
        "#
            )
        };
        let any = r#"{san_type: URI, matcher: {prefix: "spiffe://a.local/"}}, {san_type: URI, matcher: {prefix: "spiffe://default/"}}"#;
        let one = r#"{san_type: URI, matcher: {exact: "spiffe://a.local/web"}}"#;
        for (accepted, matchers) in [(vec![], any), (vec!["spiffe://a.local/web".to_owned()], one)] {
            let secret = validation(&Validation { name: "x".into(), trusted: trusted.clone(), accepted });
            check(&secret, &expected(matchers));
        }
    }
}
