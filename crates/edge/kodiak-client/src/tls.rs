//! TLS: trusted CAs and the client certificate.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::ConfigBuilderExt as _;
use rustls::client::WantsClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use super::SetupError;
use super::endpoint::{ClientCertificate, Endpoint};

/// TLS configuration for a control plane. For plain HTTP it is built but not used.
pub(super) fn config(endpoint: &Endpoint) -> Result<ClientConfig, SetupError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(SetupError::Tls)?;
    let builder: ConfigBuilder<ClientConfig, WantsClientCert> = match &endpoint.ca_cert_file {
        Some(file) => builder.dangerous().with_custom_certificate_verifier(verifier(file, provider)?),
        // Plain HTTP needs no root certificates, so a machine without any can use it.
        None if !endpoint.address.is_https() => builder.with_root_certificates(RootCertStore::empty()),
        None => builder.with_native_roots().map_err(SetupError::NoSystemRoots)?,
    };
    match &endpoint.client_cert {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCertificate { cert_file, key_file }) => {
            let key = PrivateKeyDer::from_pem_slice(&read(key_file)?)
                .map_err(|error| SetupError::PrivateKey { file: key_file.clone(), reason: error.to_string() })?;
            builder.with_client_auth_cert(certificates(cert_file)?, key).map_err(|source| {
                SetupError::ClientCertificate { cert_file: cert_file.clone(), key_file: key_file.clone(), source }
            })
        }
    }
}

/// Verifies servers by the CAs of the file, or by their own certificate in it.
fn verifier(file: &Path, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, SetupError> {
    let unusable = |source| SetupError::NotACa { file: file.to_owned(), source };
    kodiak_crypto::server_verifier(certificates(file)?, provider).map_err(unusable)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, SetupError> {
    let wrong = |reason: &str| SetupError::Certificates { file: file.to_owned(), reason: reason.to_owned() };
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&format!(" ({error})")))?;
    if certificates.is_empty() { Err(wrong("")) } else { Ok(certificates) }
}

fn read(file: &Path) -> Result<Vec<u8>, SetupError> {
    std::fs::read(file).map_err(|source| SetupError::File { file: file.to_owned(), source })
}
