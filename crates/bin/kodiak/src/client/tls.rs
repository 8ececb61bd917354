//! Whom we believe, and what we show.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use hyper_rustls::ConfigBuilderExt as _;
use kodiak_terminal::usage;
use rustls::client::WantsClientCert;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ConfigBuilder, RootCertStore};

use super::endpoint::{ClientCert, Endpoint};

/// The TLS settings for a control plane. For one that speaks plain HTTP they are made but not used.
pub(super) fn config(endpoint: &Endpoint) -> anyhow::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13, &TLS12])
        .context("cannot set up TLS")?;
    let builder: ConfigBuilder<ClientConfig, WantsClientCert> = match &endpoint.ca_cert_file {
        Some(file) => builder.with_root_certificates(authorities(file)?),
        // Machines without any authority still reach control planes over plain HTTP.
        None if !endpoint.address.is_https() => builder.with_root_certificates(RootCertStore::empty()),
        None => builder.with_native_roots().map_err(|error| {
            usage(format!("this machine has no certificate authorities ({error}); pass one with --ca-cert-file"))
        })?,
    };
    match &endpoint.client_cert {
        None => Ok(builder.with_no_client_auth()),
        Some(ClientCert { cert_file, key_file }) => {
            let key = PrivateKeyDer::from_pem_slice(&read(key_file)?)
                .map_err(|error| usage(format!("{} holds no private key in PEM ({error})", key_file.display())))?;
            builder.with_client_auth_cert(certificates(cert_file)?, key).map_err(|error| {
                usage(format!("{} and {} do not fit: {error}", cert_file.display(), key_file.display()))
            })
        }
    }
}

fn authorities(file: &Path) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots
            .add(certificate)
            .map_err(|error| usage(format!("{} holds a certificate that is no authority: {error}", file.display())))?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let wrong = |why: &str| usage(format!("{} holds no certificates in PEM{why}", file.display()));
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong(&format!(" ({error})")))?;
    if certificates.is_empty() { Err(wrong("")) } else { Ok(certificates) }
}

fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(file).map_err(|error| usage(format!("cannot read {}: {error}", file.display())))
}
