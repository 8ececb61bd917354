//! Starts other programs; errors contain the command line.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// Variables that `cargo run` sets for its program. A cargo started from here must not see them: build scripts that
/// depend on these variables would run again at every change between `cargo xtask test` and `cargo test`.
const SET_BY_CARGO_RUN: &[&str] = &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The cargo that runs this program, in the root of the repository.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = cargo_anywhere();
    command.current_dir(&workspace.root);
    command
}

/// The cargo that runs this program, for a command outside this repository.
pub(crate) fn cargo_anywhere() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    for (key, _) in env::vars_os() {
        let text = key.to_string_lossy();
        if SET_BY_CARGO_RUN.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&key);
        }
    }
    command
}

/// Runs it on this terminal, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs it and returns its standard output; its standard error goes to this terminal.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed ({})", shown(command), output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{}` printed something that is not text", shown(command)))
}

/// The command line.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The first folder of `PATH` that contains `program`.
pub(crate) fn folder_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|folder| folder.join(program).is_file())
}

/// Cache folder, for files that are reused but not committed.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    let absolute = |key: &str| env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    Ok(base.context("neither HOME nor XDG_CACHE_HOME is set; set one to an absolute path")?.join("kodiak"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_names_the_command() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert_eq!(error.to_string(), "`sh -c exit 3` failed (exit status: 3)");
        let error = output(&mut Command::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(error.to_string(), "cannot start `all`");
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(folder_on_path("sh").is_some());
        assert!(folder_on_path("no-such-program").is_none());
    }
}
