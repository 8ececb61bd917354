//! `cargo xtask conformance`: recorded inputs and expected outputs, run through the real code.
//!
//! The counts that were reached are committed in `conformance.json`; fewer fail the build.

mod counts;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;
use counts::{Committed, Counts};

/// Names the folder of recorded cases where no argument does.
const FOLDER: &str = "KODIAK_GOLDENS";
const COMMITTED: &str = "conformance.json";

/// Runs the recorded cases and prints a line per suite.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder of recorded cases. Default: the value of `KODIAK_GOLDENS`.
    dir: Option<PathBuf>,
    /// Only this suite.
    #[arg(long, value_name = "NAME")]
    suite: Option<String>,
    /// Only cases whose name contains this text.
    #[arg(long, value_name = "SUBSTRING")]
    case: Option<String>,
    /// Show the differences of failed cases.
    #[arg(long)]
    show: bool,
    /// Print intended differences and their reasons, without running cases.
    #[arg(long)]
    list_deviations: bool,
    /// Run all cases and write the counts into conformance.json; they may only rise.
    #[arg(long, conflicts_with_all = ["suite", "case", "list_deviations"])]
    save: bool,
}

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let folder = folder(args.dir.clone(), env::var_os(FOLDER))?;
    if folder.is_none() && !args.list_deviations {
        bail!("no folder of recorded cases: run `cargo xtask conformance DIR`, or set {FOLDER}");
    }
    let mut command = process::cargo(workspace);
    command.args(RUNNER);
    if let Some(folder) = folder {
        if args.save {
            return save(workspace, &folder);
        }
        command.arg(folder);
    }
    for (flag, value) in [("--suite", &args.suite), ("--case", &args.case)] {
        if let Some(value) = value {
            command.arg(flag).arg(value);
        }
    }
    for (flag, given) in [("--show", args.show), ("--list-deviations", args.list_deviations)] {
        if given {
            command.arg(flag);
        }
    }
    process::run(&mut command)
}

/// Fails when a suite passes less than is committed. `None` when no folder of recorded cases is configured.
pub(crate) fn check(workspace: &Workspace) -> Result<Option<String>> {
    let Some(folder) = folder(None, env::var_os(FOLDER))? else {
        return Ok(None);
    };
    let committed = committed(workspace)?;
    let counts = count(workspace, &folder)?;
    let fallen = committed.fallen(&counts);
    if !fallen.is_empty() {
        bail!(
            "fewer cases pass than {COMMITTED} says:\n  {}\nsee `cargo xtask conformance --suite NAME --show`",
            fallen.join("\n  ")
        );
    }
    for risen in committed.risen(&counts) {
        println!("  {risen}");
    }
    if !committed.risen(&counts).is_empty() {
        println!("More cases pass than {COMMITTED} says: run `cargo xtask conformance --save` and commit it.");
    }
    Ok(Some(counts.summary()))
}

fn save(workspace: &Workspace, folder: &Path) -> Result<()> {
    let counts = count(workspace, folder)?;
    let committed = committed(workspace)?;
    let fallen = committed.fallen(&counts);
    if !fallen.is_empty() {
        bail!("the counts in {COMMITTED} may only rise; edit it by hand if this is meant:\n  {}", fallen.join("\n  "));
    }
    for risen in committed.risen(&counts) {
        println!("  {risen}");
    }
    let text = Committed::from(&counts).to_json()?;
    fs::write(workspace.root.join(COMMITTED), text).with_context(|| format!("cannot write {COMMITTED}"))
}

/// Not optimised, because an optimised build takes longer than all cases.
const RUNNER: &[&str] = &["run", "--quiet", "--package", "kodiak-conformance", "--"];

/// Runs all suites. Failed cases are counted, not an error.
fn count(workspace: &Workspace, folder: &Path) -> Result<Counts> {
    let json = process::cache_dir()?.join(format!("conformance-{}.json", std::process::id()));
    if let Some(cache) = json.parent() {
        fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    }
    let ran = process::run(process::cargo(workspace).args(RUNNER).arg(folder).arg("--json").arg(&json));
    let counts = fs::read_to_string(&json);
    // Only ours, and nothing is lost when it stays.
    let _ = fs::remove_file(&json);
    match (counts, ran) {
        (Ok(text), _) => Counts::from_json(&text),
        (Err(_), Err(error)) => Err(error),
        (Err(error), Ok(())) => Err(error).context("the runner ended well but wrote no counts"),
    }
}

/// The folder of recorded cases: the argument, or else the environment variable. A name without a folder is an error.
fn folder(argument: Option<PathBuf>, variable: Option<OsString>) -> Result<Option<PathBuf>> {
    let Some(named) = argument.or_else(|| variable.map(PathBuf::from)) else {
        return Ok(None);
    };
    let folder = std::path::absolute(&named).with_context(|| format!("cannot find {}", named.display()))?;
    if !folder.is_dir() {
        bail!("no recorded cases in {}: not a folder; pass another one, or set {FOLDER}", folder.display());
    }
    Ok(Some(folder))
}

fn committed(workspace: &Workspace) -> Result<Committed> {
    match fs::read_to_string(workspace.root.join(COMMITTED)) {
        Ok(text) => Committed::from_json(&text).with_context(|| format!("cannot read {COMMITTED}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Committed::default()),
        Err(error) => Err(error).with_context(|| format!("cannot read {COMMITTED}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_precedes_the_variable() {
        let here = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let (here, elsewhere) = (here.path().to_owned(), elsewhere.path().to_owned());
        assert_eq!(folder(Some(here.clone()), Some(elsewhere.clone().into())).unwrap(), Some(here));
        assert_eq!(folder(None, Some(elsewhere.clone().into())).unwrap(), Some(elsewhere));
        assert_eq!(folder(None, None).unwrap(), None);
    }

    #[test]
    fn a_folder_that_does_not_exist_is_an_error() {
        let error = folder(None, Some("/nowhere/at/all".into())).unwrap_err().to_string();
        assert!(error.starts_with("no recorded cases in /nowhere/at/all: not a folder"), "{error}");
    }
}
