//! Starting other programs, and saying what was run when one fails.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::Workspace;

/// What `cargo run` tells its program about itself. A cargo started from here must not see it: build scripts that watch
/// these variables would run again each time somebody goes from `cargo xtask test` to `cargo test` and back.
const SET_BY_CARGO_RUN: &[&str] = &["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo(workspace: &Workspace) -> Command {
    let mut command = cargo_anywhere();
    command.current_dir(&workspace.root);
    command
}

/// The cargo that runs us, for a command that is not about this repository.
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

/// Runs it on our terminal, and fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs it and returns what it prints; what it complains about goes to our terminal.
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

/// The command as one would type it.
pub(crate) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}

/// The first folder of `PATH` that holds `program`.
pub(crate) fn folder_on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).find(|folder| folder.join(program).is_file())
}

/// Where things are kept that are good to have again but not worth committing.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    let absolute = |key: &str| env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    Ok(base.context("neither HOME nor XDG_CACHE_HOME is set; set one to an absolute path")?.join("kodiak"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_command() {
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
