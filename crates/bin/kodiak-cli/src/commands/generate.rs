//! `kodiak generate`: tokens, the keys that sign them, and certificates.

mod certificate;
mod keys;
mod tokens;

use std::io::{IsTerminal as _, Write as _};

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: GenerateCommand,
}

#[derive(clap::Subcommand)]
enum GenerateCommand {
    /// Generate a token for data plane proxies
    DataplaneToken(tokens::DataplaneArgs),
    /// Generate a token for the ingress and egress of a zone
    ZoneToken(tokens::ZoneArgs),
    /// Generate a token for a user of the API
    UserToken(tokens::UserArgs),
    /// Generate a key that signs tokens
    SigningKey(keys::SigningKeyArgs),
    /// Print the public key of a signing key
    PublicKey(keys::PublicKeyArgs),
    /// Generate a self-signed certificate for a server or a client
    TlsCertificate(certificate::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let text = match args.command {
        GenerateCommand::DataplaneToken(args) => tokens::dataplane(args, session).await?,
        GenerateCommand::ZoneToken(args) => tokens::zone(args, session).await?,
        GenerateCommand::UserToken(args) => tokens::user(args, session).await?,
        GenerateCommand::SigningKey(args) => keys::signing_key(&args)?,
        GenerateCommand::PublicKey(args) => keys::public_key(&args)?,
        GenerateCommand::TlsCertificate(args) => certificate::run(&args)?,
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    // A token in a file must not end with a newline; on a terminal the prompt needs a line of its own.
    if out.is_terminal() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
