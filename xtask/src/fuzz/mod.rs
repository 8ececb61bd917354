//! `cargo xtask fuzz`: runs the fuzz targets until an input crashes one.
//!
//! Built with plain cargo on the pinned toolchain: neither nightly nor cargo-fuzz is needed, only a C++ compiler for
//! libFuzzer. The `fuzz` folder has the layout of cargo-fuzz, which can be used too.

mod build;
mod crashes;
pub(crate) mod duration;
mod feed;

use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// The fuzz crate is a separate workspace, so that its build flags do not affect others.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Run fuzz targets and save the inputs that crash them.
///
/// The corpus is stored in the cache folder, so that the next run continues from it. Crashing inputs are copied to
/// fuzz/artifacts/<target>/.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The target; all of them, one after the other, by default
    target: Option<String>,
    /// How long each target runs, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// How long each target runs: 90s, 10m, 2h
    #[arg(long = "for", value_name = "TIME", value_parser = duration::parse, conflicts_with = "seconds")]
    duration: Option<u64>,
    /// Print the names of the targets and exit
    #[arg(long)]
    list: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let mut targets = targets(workspace)?;
    if args.list {
        println!("{}", targets.join("\n"));
        return Ok(());
    }
    if let Some(wanted) = &args.target {
        if !targets.contains(wanted) {
            bail!("fuzz target {wanted:?} does not exist; the targets are {}", targets.join(", "));
        }
        targets.retain(|target| target == wanted);
    }
    feed_each(workspace, &targets, args.duration.unwrap_or(args.seconds))
}

/// Runs each target for a short time.
pub(crate) fn smoke(workspace: &Workspace, seconds: u64) -> Result<String> {
    let targets = targets(workspace)?;
    feed_each(workspace, &targets, seconds)?;
    Ok(format!("{} targets, {seconds} s each", targets.len()))
}

fn feed_each(workspace: &Workspace, targets: &[String], seconds: u64) -> Result<()> {
    let programs = build::build(workspace, targets)?;
    for (target, program) in targets.iter().zip(&programs) {
        println!("{target}: {}", feed::feed(workspace, target, program, seconds)?);
    }
    Ok(())
}

/// The targets in the manifest of the fuzz crate.
fn targets(workspace: &Workspace) -> Result<Vec<String>> {
    let package = workspace.metadata(MANIFEST)?.packages.pop().context("the fuzz crate has a manifest")?;
    let name = |root: &String| Some(Path::new(root).file_stem()?.to_str()?.to_owned());
    let mut targets: Vec<String> =
        package.roots.iter().filter(|root| root.contains("fuzz_targets/")).filter_map(name).collect();
    targets.sort();
    Ok(targets)
}
