//! `kodiak inspect`: what a proxy should have, what it has, and how it stands.

mod dataplane;
mod summary;

use crate::exit::Exit;
use crate::session::Session;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// One proxy, from outside or from inside
    #[command(visible_alias = "dp")]
    Dataplane(dataplane::Args),
}

pub(crate) async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        What::Dataplane(args) => dataplane::run(&args, session).await,
    }
}
