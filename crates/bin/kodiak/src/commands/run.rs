//! `kodiak run`: the control plane. What it does is in `kodiak-cp`.

use crate::exit::Exit;

#[derive(clap::Args)]
pub(crate) struct Args {}

#[expect(clippy::unused_async, reason = "the control plane takes its place")]
pub(crate) async fn run(_: Args) -> anyhow::Result<Exit> {
    anyhow::bail!("this build has no control plane")
}
