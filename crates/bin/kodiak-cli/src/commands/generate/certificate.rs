//! Self-signed certificates.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, CertificateUse, KeyPair, RsaBits, SelfSignedParams, TEN_YEARS, self_signed};
use kodiak_terminal::usage;

use crate::private_file;

/// Stands for standard output.
const STDOUT: &str = "-";

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak generate tls-certificate --type server --hostname cp.example.com --hostname 10.0.0.1
  kodiak generate tls-certificate --type client --hostname jo --key-file jo.key --cert-file jo.crt --key-type ecdsa
  kodiak generate tls-certificate --type server --hostname localhost --key-file - --cert-file -

It is valid for ten years. Clients of a server trust it when they get the certificate as their CA file.
Files are readable by their owner only.")]
pub(super) struct Args {
    /// Use of the certificate
    #[arg(long = "type", value_enum)]
    usage: Usage,

    /// Host name or address of the server, or name of the client. May be repeated
    #[arg(long = "hostname", value_name = "NAME", required = true, value_delimiter = ',')]
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    hostnames: Vec<String>,

    /// File for the private key; - for standard output
    #[arg(long, value_name = "FILE", default_value = "key.pem")]
    key_file: PathBuf,

    /// File for the certificate; - for standard output
    #[arg(long, value_name = "FILE", default_value = "cert.pem")]
    cert_file: PathBuf,

    /// Type of the private key
    #[arg(long, value_enum, default_value_t = KeyType::Rsa)]
    key_type: KeyType,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Usage {
    Server,
    Client,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KeyType {
    Rsa,
    Ecdsa,
}

/// Writes the files, and returns the text for standard output.
pub(super) fn run(args: &Args) -> anyhow::Result<String> {
    let (ips, names): (Vec<&str>, Vec<&str>) =
        args.hostnames.iter().map(String::as_str).partition(|name| name.parse::<IpAddr>().is_ok());
    let ips: Vec<IpAddr> = ips.iter().filter_map(|ip| ip.parse().ok()).collect();
    let params = SelfSignedParams {
        hostnames: &names,
        ips: &ips,
        usage: match args.usage {
            Usage::Server => CertificateUse::Server,
            Usage::Client => CertificateUse::Client,
        },
        key: match args.key_type {
            KeyType::Rsa => CaKeyType::Rsa(RsaBits::B2048),
            KeyType::Ecdsa => CaKeyType::P256,
        },
        valid_for: TEN_YEARS,
        now: Timestamp::now(),
    };
    let KeyPair { cert_pem, key_pem } = self_signed(&params).context("cannot generate a certificate")?;
    let mut shown = String::new();
    for (file, pem) in [(&args.key_file, key_pem.expose()), (&args.cert_file, cert_pem.as_str())] {
        if file.as_os_str() == STDOUT {
            shown.push_str(pem);
        } else {
            write(file, pem)?;
        }
    }
    let saved = [("Private key", &args.key_file), ("Certificate", &args.cert_file)];
    if saved.iter().all(|(_, file)| file.as_os_str() != STDOUT) {
        shown = saved.map(|(what, file)| format!("{what} saved in {}\n", file.display())).concat();
    }
    Ok(shown)
}

fn write(file: &Path, pem: &str) -> anyhow::Result<()> {
    private_file::write(file, pem.as_bytes())
        .map_err(|error| usage(format!("cannot write {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_and_key_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let args = |key_file: PathBuf, key_type| Args {
            usage: Usage::Server,
            hostnames: vec!["cp.example.com".to_owned(), "10.0.0.1".to_owned()],
            key_file,
            cert_file: file("cert.pem"),
            key_type,
        };
        let shown = run(&args(file("key.pem"), KeyType::Rsa)).unwrap();
        assert!(shown.starts_with("Private key saved in "), "{shown}");
        let names = kodiak_crypto::server_names(&std::fs::read(file("cert.pem")).unwrap()).unwrap();
        assert_eq!(names, ["cp.example.com", "10.0.0.1"]);
        assert!(std::fs::read_to_string(file("key.pem")).unwrap().contains("PRIVATE KEY"));
        let shown = run(&args(STDOUT.into(), KeyType::Ecdsa)).unwrap();
        assert!(shown.starts_with("-----BEGIN PRIVATE KEY-----"), "{shown}");
    }

    #[test]
    fn invalid_host_names_are_refused() {
        let args = Args {
            usage: Usage::Client,
            hostnames: vec!["not a name".to_owned()],
            key_file: STDOUT.into(),
            cert_file: STDOUT.into(),
            key_type: KeyType::Ecdsa,
        };
        assert!(format!("{:#}", run(&args).unwrap_err()).contains("not a name"));
    }
}
