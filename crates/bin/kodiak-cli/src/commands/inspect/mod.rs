//! `kodiak inspect`: what a proxy should have, what it has, and how it stands; and whether a policy does something.

mod changes;
mod dataplane;
mod policy;
mod references;
mod rules;
mod summary;

use kodiak_terminal::Exit;

use crate::session::Session;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// One proxy, from outside or from inside
    #[command(visible_alias = "dp")]
    Dataplane(dataplane::Args),
    /// One policy: on which proxies it is in force, and why not on others
    Policy(policy::Args),
}

pub async fn run(args: Args, session: &Session) -> anyhow::Result<Exit> {
    match args.what {
        What::Dataplane(args) => dataplane::run(&args, session).await,
        What::Policy(args) => policy::run(&args, session).await,
    }
}
