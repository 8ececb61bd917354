//! Verification of servers by clients: by the given CAs, and a CA certificate that is the server's own by identity.
//!
//! kuma-cp serves the self-signed certificate that it generates, which is marked as a CA; its clients have that file as
//! their CA file. webpki rejects every CA as the certificate of a server, so this one certificate is recognized byte for
//! byte. Its name, its dates and the signature of the handshake are verified as always.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::CryptoError;

/// Verifier of servers whose certificate one of these CAs has issued, or is.
pub fn server_verifier(
    cas: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, CryptoError> {
    let mut roots = RootCertStore::empty();
    for ca in &cas {
        roots.add(ca.clone()).map_err(|source| CryptoError::Tls { source })?;
    }
    let by_issuer = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|source| CryptoError::ClientCa { source })?;
    let own = cas.into_iter().filter(|der| is_ca(der)).collect();
    Ok(Arc::new(ServerVerifier { by_issuer, own }))
}

#[derive(Debug)]
struct ServerVerifier {
    by_issuer: Arc<WebPkiServerVerifier>,
    /// CAs that may be the certificate of the server itself.
    own: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if !self.own.iter().any(|own| own.as_ref() == end_entity.as_ref()) {
            return self.by_issuer.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        }
        check_use_and_dates(end_entity, now)?;
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_issuer.verify_tls12_signature(message, cert, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_issuer.verify_tls13_signature(message, cert, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_issuer.supported_verify_schemes()
    }
}

fn is_ca(der: &CertificateDer<'_>) -> bool {
    X509Certificate::from_der(der).is_ok_and(|(_, certificate)| certificate.is_ca())
}

fn check_use_and_dates(der: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < certificate.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > certificate.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    match certificate.extended_key_usage() {
        Ok(None) => Ok(()),
        Ok(Some(usage)) if usage.value.server_auth || usage.value.any => Ok(()),
        Ok(Some(_)) => Err(CertificateError::InvalidPurpose.into()),
        Err(_) => Err(CertificateError::BadEncoding.into()),
    }
}
