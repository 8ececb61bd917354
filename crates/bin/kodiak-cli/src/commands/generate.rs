//! `kodiak generate`: tokens and the keys that sign them.

mod keys;
mod tokens;

use std::io::{IsTerminal as _, Write as _};

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// A token for data plane proxies
    DataplaneToken(tokens::DataplaneArgs),
    /// A token for the ingress and egress of a zone
    ZoneToken(tokens::ZoneArgs),
    /// A token for people and machines that use the API
    UserToken(tokens::UserArgs),
    /// A key to sign tokens with
    SigningKey(keys::SigningKeyArgs),
    /// The public half of a signing key
    PublicKey(keys::PublicKeyArgs),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    let text = match args.what {
        What::DataplaneToken(args) => tokens::dataplane(args, session).await?,
        What::ZoneToken(args) => tokens::zone(args, session).await?,
        What::UserToken(args) => tokens::user(args, session).await?,
        What::SigningKey(args) => keys::signing_key(&args)?,
        What::PublicKey(args) => keys::public_key(&args)?,
    };
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    // A token in a file must end where the token ends; on a terminal the prompt wants a line of its own.
    if out.is_terminal() && !text.ends_with('\n') {
        out.write_all(b"\n")?;
    }
    out.flush()?;
    Ok(Exit::Fine)
}
