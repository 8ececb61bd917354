//! TLS settings for the servers of the control plane, and for its clients.

use std::sync::Arc;

use rustls::client::WantsClientCert;
use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, ServerConfig};

use crate::CryptoError;
use crate::pem;
use crate::server_verifier::server_verifier;

/// CAs whose client certificates are trusted, and whether a client needs one. The text is the PEM of one or more CAs.
#[derive(Clone, Copy, Debug)]
pub enum ClientCa<'a> {
    /// A client certificate is optional; if there is one, it must be valid.
    Optional(&'a [u8]),
    /// A client without a valid certificate is rejected.
    Required(&'a [u8]),
}

/// TLS 1.2 and 1.3 with HTTP/2 before HTTP/1.1. Without `client_ca` no client certificate is requested.
pub fn server_config(
    cert_pem: &[u8],
    key_pem: &[u8],
    client_ca: Option<ClientCa<'_>>,
) -> Result<Arc<ServerConfig>, CryptoError> {
    let chain = pem::certificates(cert_pem)?;
    let key = pem::private_key(key_pem)?;
    let provider = provider();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])
        .map_err(tls)?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => builder.with_client_cert_verifier(client_verifier(provider, ca)?),
    };
    let mut config = builder.with_single_cert(chain, key).map_err(tls)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// TLS 1.2 and 1.3 for a client that trusts the given CAs, and no others. The text is PEM. A server may have one of these
/// certificates itself; see `server_verifier`.
pub fn client_config(ca_pem: &[u8]) -> Result<ClientConfig, CryptoError> {
    Ok(client(ca_pem)?.with_no_client_auth())
}

/// Like [`client_config`], for a client with a certificate.
pub fn client_config_with(ca_pem: &[u8], cert_pem: &[u8], key_pem: &[u8]) -> Result<ClientConfig, CryptoError> {
    let (chain, key) = (pem::certificates(cert_pem)?, pem::private_key(key_pem)?);
    client(ca_pem)?.with_client_auth_cert(chain, key).map_err(tls)
}

fn client(ca_pem: &[u8]) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, CryptoError> {
    let verifier = server_verifier(pem::certificates(ca_pem)?, provider())?;
    let builder = ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13, &TLS12]);
    Ok(builder.map_err(tls)?.dangerous().with_custom_certificate_verifier(verifier))
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn client_verifier(
    provider: Arc<CryptoProvider>,
    ca: ClientCa<'_>,
) -> Result<Arc<dyn ClientCertVerifier>, CryptoError> {
    let (ClientCa::Optional(pem) | ClientCa::Required(pem)) = ca;
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots(pem)?), provider);
    let builder = match ca {
        ClientCa::Optional(_) => builder.allow_unauthenticated(),
        ClientCa::Required(_) => builder,
    };
    builder.build().map_err(|source| CryptoError::ClientCa { source })
}

fn roots(pem: &[u8]) -> Result<RootCertStore, CryptoError> {
    let mut roots = RootCertStore::empty();
    for root in pem::certificates(pem)? {
        roots.add(root).map_err(tls)?;
    }
    Ok(roots)
}

fn tls(source: rustls::Error) -> CryptoError {
    CryptoError::Tls { source }
}
