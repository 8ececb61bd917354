//! Keys that sign tokens.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use kodiak_crypto::{MAX_PEM_BYTES, RsaKey};

use kodiak_terminal::usage;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak generate signing-key --format pem > key.pem
  printf 'type: GlobalSecret\\nname: user-token-signing-key-2\\ndata: %s\\n' \"$(kodiak generate signing-key)\" | kodiak apply -f -")]
pub(super) struct SigningKeyArgs {
    /// Base64 is what the data of a secret needs
    #[arg(long, value_enum, default_value_t = Format::PemBase64)]
    format: Format,
}

#[derive(clap::Args)]
#[command(after_help = "\
Example:
  kodiak generate public-key --signing-key-path key.pem > key.pub.pem")]
pub(super) struct PublicKeyArgs {
    /// The private key, in PEM
    #[arg(long, value_name = "FILE")]
    signing_key_path: PathBuf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    Pem,
    PemBase64,
}

pub(super) fn signing_key(args: &SigningKeyArgs) -> anyhow::Result<String> {
    let pem = RsaKey::generate().and_then(|key| key.to_pem()).context("cannot make a key")?;
    Ok(match args.format {
        Format::Pem => pem.expose().to_owned(),
        Format::PemBase64 => STANDARD.encode(pem.expose()),
    })
}

pub(super) fn public_key(args: &PublicKeyArgs) -> anyhow::Result<String> {
    let file = &args.signing_key_path;
    let key = RsaKey::from_bytes(&read(file)?)
        .map_err(|error| usage(format!("{}: {:#}", file.display(), anyhow::Error::from(error))))?;
    key.public_pem().context("cannot write the public key")
}

/// The key in a file: as PEM, or in the base64 that `generate signing-key` gives.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    let bytes = std::fs::read(file).map_err(|error| usage(format!("cannot read {}: {error}", file.display())))?;
    if bytes.len() > 2 * MAX_PEM_BYTES {
        return Err(usage(format!("{} is too large to be a key", file.display())));
    }
    let decoded = STANDARD.decode(bytes.trim_ascii()).ok().filter(|decoded| decoded.starts_with(b"-----BEGIN"));
    Ok(decoded.unwrap_or(bytes))
}
