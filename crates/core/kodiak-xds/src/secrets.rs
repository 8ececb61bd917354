//! Secrets: certificates of proxies, and trusted root certificates.

use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{
    CertificateValidationContext, Secret, TlsCertificate, secret,
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
}
