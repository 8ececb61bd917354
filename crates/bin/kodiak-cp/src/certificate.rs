//! Server certificate of the control plane: configured, or self-signed in the working directory.

use std::{
    fs,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_crypto::{ServerCertParams, TEN_YEARS, self_signed_server, server_config, server_names};
use rustls::ServerConfig;

use crate::config::General;

/// Certificate of all servers.
pub(crate) struct Certificate {
    pub(crate) config: Arc<ServerConfig>,
    /// PEM; clients use it as their CA file.
    pub(crate) pem: String,
    /// Subject alternative names.
    pub(crate) names: Vec<String>,
}

pub(crate) fn load(general: &General, work_dir: &Path, hostname: &str) -> anyhow::Result<Certificate> {
    let (cert, key) = paths(general, work_dir)?;
    if !cert.exists() && general.tls_cert_file.as_os_str().is_empty() {
        make(&cert, &key, hostname)?;
        tracing::info!(certificate = %cert.display(), "created a self-signed server certificate: configure it as the CA file of clients");
    }
    let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let unusable = || format!("cannot use the certificate {} with the key {}", cert.display(), key.display());
    let chain = read(&cert)?;
    let config = server_config(&chain, &read(&key)?, None).with_context(unusable)?;
    let names = server_names(&chain).with_context(unusable)?;
    let pem = String::from_utf8(chain).ok().with_context(unusable)?;
    Ok(Certificate { config, pem, names })
}

fn paths(general: &General, work_dir: &Path) -> anyhow::Result<(PathBuf, PathBuf)> {
    let General { tls_cert_file, tls_key_file, work_dir: _, data_source_folder: _ } = general;
    match (tls_cert_file.as_os_str().is_empty(), tls_key_file.as_os_str().is_empty()) {
        (true, true) => Ok((work_dir.join("kodiak.crt"), work_dir.join("kodiak.key"))),
        (false, false) => Ok((tls_cert_file.clone(), tls_key_file.clone())),
        _ => anyhow::bail!("general.tlsCertFile and general.tlsKeyFile: set both or none"),
    }
}

fn make(cert: &Path, key: &Path, hostname: &str) -> anyhow::Result<()> {
    let ips = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
    let params = ServerCertParams {
        hostnames: &["localhost", hostname],
        ips: &ips,
        valid_for: TEN_YEARS,
        now: Timestamp::now(),
    };
    let pair = self_signed_server(&params)?;
    // The certificate is written last: if it exists, so does the key.
    write(key, pair.key_pem.expose(), 0o600)?;
    write(cert, &pair.cert_pem, 0o644)
}

/// Writes atomically and durably.
fn write(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let attempt = || -> std::io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    attempt().with_context(|| format!("cannot write {}", path.display()))
}
