//! Secrets: certificates of proxies, and trusted root certificates.

use std::sync::Arc;

use kodiak_envoy::any;
use kodiak_envoy::envoy::config::core::v3::TypedExtensionConfig;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::spiffe_cert_validator_config::TrustDomain;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, SpiffeCertValidatorConfig, TlsCertificate, secret,
};

use crate::input::Identity;
use crate::names;
use crate::tls::inline;

pub fn identity(mesh: &str, identity: &Identity) -> Secret {
    let certificate = TlsCertificate {
        certificate_chain: Some(inline(&identity.certificate)),
        private_key: Some(inline(&identity.key)),
        ..TlsCertificate::default()
    };
    Secret { name: names::identity_secret(mesh), r#type: Some(secret::Type::TlsCertificate(certificate)) }
}

/// All root certificates of the mesh, concatenated as PEM.
pub fn authority(mesh: &str, roots_pem: &str) -> Secret {
    let roots =
        CertificateValidationContext { trusted_ca: Some(inline(roots_pem)), ..CertificateValidationContext::default() };
    Secret { name: names::ca_secret(mesh), r#type: Some(secret::Type::ValidationContext(roots)) }
}

/// Root certificates (PEM) by trust domain, sorted: a certificate is verified by the CAs of the domain of its SPIFFE ID.
pub fn trust_bundle(domains: &[(Arc<str>, Arc<str>)]) -> Secret {
    let domain = |(name, roots): &(Arc<str>, Arc<str>)| TrustDomain {
        name: name.to_string(),
        trust_bundle: Some(inline(roots)),
        ..TrustDomain::default()
    };
    let validator = SpiffeCertValidatorConfig {
        trust_domains: domains.iter().map(domain).collect(),
        ..SpiffeCertValidatorConfig::default()
    };
    let validator = TypedExtensionConfig {
        name: "envoy.tls.cert_validator.spiffe".to_owned(),
        typed_config: Some(any(&validator)),
    };
    let context = CertificateValidationContext {
        custom_validator_config: Some(validator),
        ..CertificateValidationContext::default()
    };
    Secret { name: names::TRUST_BUNDLE.to_owned(), r#type: Some(secret::Type::ValidationContext(context)) }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn root_certificates_of_a_mesh_are_one_secret() {
        let expected = r#"
            name: "mesh_ca:secret:default"
            validation_context: {trusted_ca: {inline_bytes: Q0E=}}
        "#;
        check(&authority("default", "CA"), expected);
    }

    #[test]
    fn each_trust_domain_has_its_own_roots() {
        let expected = r#"
            name: system_trust_bundle
            validation_context:
              custom_validator_config:
                name: envoy.tls.cert_validator.spiffe
                typed_config:
                  "@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.SPIFFECertValidatorConfig
                  trust_domains: [{name: a.local, trust_bundle: {inline_bytes: Q0E=}}]
        "#;
        check(&trust_bundle(&[("a.local".into(), "CA".into())]), expected);
    }
}
