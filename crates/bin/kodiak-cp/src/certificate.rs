//! Server certificate of the control plane: configured, or issued at each start by a CA in the working directory.
//!
//! Clients have the CA, `kodiak.crt`, as their CA file, so a certificate with other names needs no action by them. Earlier
//! versions stored the server certificate itself as `kodiak.crt`; it stays in use. See
//! [ADR 018](../../../../docs/adr/018-a-ca-for-server-certificates.md).

use std::{
    collections::BTreeSet,
    fs,
    io::Write as _,
    net::IpAddr,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use jiff::Timestamp;
use kodiak_crypto::{
    CaFault, CaKeyType, CaPair, LeafSpec, LeafUsage, RootCaParams, TEN_YEARS, check_ca_pair, root_ca, server_config,
    server_names,
};
use rustls::{ServerConfig, pki_types::DnsName};

use crate::{config::Config, machine};

/// Certificate of all servers.
pub(crate) struct Certificate {
    pub(crate) config: Arc<ServerConfig>,
    /// PEM; clients use it as their CA file.
    pub(crate) pem: String,
    /// Subject alternative names.
    pub(crate) names: Vec<String>,
}

pub(crate) fn load(config: &Config, work_dir: &Path, hostname: &str) -> anyhow::Result<Certificate> {
    let (cert, key) = (&config.general.tls_cert_file, &config.general.tls_key_file);
    match (cert.as_os_str().is_empty(), key.as_os_str().is_empty()) {
        (true, true) => generated(work_dir, &wanted(config, hostname), Timestamp::now()),
        (false, false) => Files::read(cert, key)?.serve(),
        _ => anyhow::bail!("general.tlsCertFile and general.tlsKeyFile: set both or none"),
    }
}

/// Names and addresses that clients may connect to.
fn wanted(config: &Config, hostname: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = machine::addresses().iter().map(ToString::to_string).collect();
    let configured = config.general.certificate_names.iter().chain([&config.bootstrap_server.params.xds_host]);
    let all = ["localhost", hostname].into_iter().chain(configured.map(String::as_str));
    for name in all.filter(|name| !name.is_empty()) {
        if name.parse::<IpAddr>().is_ok() || DnsName::try_from(name).is_ok() {
            names.insert(name.to_owned());
        } else {
            tracing::warn!(name, "name is not valid in a certificate: clients cannot connect to it");
        }
    }
    names
}

/// Certificate of the CA in the working directory, which is created if it does not exist.
fn generated(work_dir: &Path, names: &BTreeSet<String>, now: Timestamp) -> anyhow::Result<Certificate> {
    let (cert, key) = (work_dir.join("kodiak.crt"), work_dir.join("kodiak.key"));
    if !cert.exists() {
        create_ca(&cert, &key, now)?;
        tracing::info!(ca = %cert.display(), "created a CA for the server certificate: configure it as the CA file of clients");
    }
    let files = Files::read(&cert, &key)?;
    let problems = check_ca_pair(&files.cert, &files.key, now);
    if problems.iter().any(|problem| problem.fault == CaFault::NotCa) {
        let certificate = files.serve()?;
        warn_of_missing(&certificate.names, names, &cert);
        return Ok(certificate);
    }
    if let Some(problem) = problems.first() {
        anyhow::bail!(
            "cannot use the CA {}: {problem}; remove it and {}, start again, and copy the new file to all clients",
            cert.display(),
            key.display()
        );
    }
    let ca = CaPair::from_pem(&files.cert, &files.key).with_context(|| files.unusable())?;
    let (ips, dns_names): (Vec<&String>, Vec<&String>) = names.iter().partition(|name| name.parse::<IpAddr>().is_ok());
    let leaf = ca.issue(&LeafSpec {
        purpose: "control-plane",
        subject: "server",
        incarnation: 0,
        epoch: 0,
        usage: LeafUsage::Server,
        not_before: ca.not_before(),
        not_after: ca.not_after(),
        uris: &[],
        dns_names: &dns_names.into_iter().cloned().collect::<Vec<_>>(),
        ips: &ips.into_iter().filter_map(|ip| ip.parse().ok()).collect::<Vec<_>>(),
    })?;
    tracing::debug!(names = ?names, ca = %cert.display(), "issued the server certificate");
    let pem = ca.roots_pem();
    let chain = format!("{}{pem}", leaf.cert_pem);
    let config = server_config(chain.as_bytes(), leaf.key_pem.expose().as_bytes(), None)?;
    Ok(Certificate { config, pem, names: names.iter().cloned().collect() })
}

/// A certificate of an earlier version is not replaced: clients that have it would no longer connect.
fn warn_of_missing(present: &[String], wanted: &BTreeSet<String>, cert: &Path) {
    let missing: Vec<&str> =
        wanted.iter().map(String::as_str).filter(|name| !present.iter().any(|it| it == name)).collect();
    if !missing.is_empty() {
        tracing::warn!(
            missing = missing.join(","),
            certificate = %cert.display(),
            "clients cannot connect to these names: the server certificate of an earlier version lacks them. To replace it, \
             remove kodiak.crt and kodiak.key, restart, and copy the new kodiak.crt to all clients once"
        );
    }
}

/// A certificate and its key.
struct Files {
    paths: (PathBuf, PathBuf),
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(cert: &Path, key: &Path) -> anyhow::Result<Self> {
        let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
        Ok(Self { paths: (cert.to_owned(), key.to_owned()), cert: read(cert)?, key: read(key)? })
    }

    /// Serves the certificate as it is.
    fn serve(self) -> anyhow::Result<Certificate> {
        let config = server_config(&self.cert, &self.key, None).with_context(|| self.unusable())?;
        let names = server_names(&self.cert).with_context(|| self.unusable())?;
        let unusable = self.unusable();
        let pem = String::from_utf8(self.cert).ok().context(unusable)?;
        Ok(Certificate { config, pem, names })
    }

    fn unusable(&self) -> String {
        format!("cannot use the certificate {} with the key {}", self.paths.0.display(), self.paths.1.display())
    }
}

fn create_ca(cert: &Path, key: &Path, now: Timestamp) -> anyhow::Result<()> {
    let params = RootCaParams {
        common_name: "control plane",
        expires_after: TEN_YEARS,
        key: CaKeyType::P256,
        uri_san: None,
        now,
    };
    let pair = root_ca(&params)?;
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

#[cfg(test)]
mod tests {
    use kodiak_crypto::{ServerCertParams, self_signed_server};

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn file(folder: &Path) -> String {
        fs::read_to_string(folder.join("kodiak.crt")).unwrap()
    }

    #[test]
    fn ca_stays_when_names_change() {
        let folder = tempfile::tempdir().unwrap();
        let first = generated(folder.path(), &names(&["localhost", "a"]), Timestamp::now()).unwrap();
        assert_eq!(
            (first.pem.as_str(), first.names.as_slice()),
            (&*file(folder.path()), &["a".into(), "localhost".into()][..])
        );
        let second = generated(folder.path(), &names(&["localhost", "b", "10.0.0.7"]), Timestamp::now()).unwrap();
        assert_eq!(second.pem, first.pem);
        assert!(second.names.contains(&"10.0.0.7".to_owned()));
    }

    #[test]
    fn server_certificate_of_an_earlier_version_stays_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let params = ServerCertParams { hostnames: &["old"], ips: &[], valid_for: TEN_YEARS, now: Timestamp::now() };
        let pair = self_signed_server(&params).unwrap();
        fs::write(folder.path().join("kodiak.crt"), &pair.cert_pem).unwrap();
        fs::write(folder.path().join("kodiak.key"), pair.key_pem.expose()).unwrap();
        let served = generated(folder.path(), &names(&["localhost", "new"]), Timestamp::now()).unwrap();
        assert_eq!((served.pem.as_str(), file(folder.path())), (pair.cert_pem.as_str(), pair.cert_pem.clone()));
        assert_eq!(served.names, ["localhost", "old"]);
    }

    #[test]
    fn expired_ca_is_an_error_with_advice() {
        let folder = tempfile::tempdir().unwrap();
        create_ca(
            &folder.path().join("kodiak.crt"),
            &folder.path().join("kodiak.key"),
            Timestamp::UNIX_EPOCH + TEN_YEARS,
        )
        .unwrap();
        let error = generated(folder.path(), &names(&["a"]), Timestamp::now()).err().unwrap().to_string();
        assert!(error.contains("expired") && error.contains("copy the new file to all clients"), "{error}");
    }

    #[test]
    fn configured_names_are_in_the_certificate() {
        let mut config = Config::default();
        config.general.certificate_names =
            vec!["cp.example.com".to_owned(), "203.0.113.9".to_owned(), "not valid".to_owned()];
        "xds.example.com".clone_into(&mut config.bootstrap_server.params.xds_host);
        let wanted = wanted(&config, "machine");
        for name in ["localhost", "machine", "127.0.0.1", "::1", "cp.example.com", "203.0.113.9", "xds.example.com"] {
            assert!(wanted.contains(name), "{name}: {wanted:?}");
        }
        assert!(!wanted.contains("not valid"));
    }
}
