//! Programs from the crates registry that checks run. Each is installed once, into the user's cache folder.
//!
//! They are built without optimisation: that takes a third of the time, and each runs for a second or two.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// A program of the crates registry, pinned to one version.
pub(crate) struct Tool {
    /// Name of the crate and of its program.
    name: &'static str,
    version: &'static str,
    /// Options of `cargo install` that leave out parts that we do not use.
    options: &'static [&'static str],
}

/// Checks licences, sources and versions of dependencies.
pub(crate) const CARGO_DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", options: &[] };

/// Builds the book, with its search but without its web server.
pub(crate) const MDBOOK: Tool =
    Tool { name: "mdbook", version: "0.5.4", options: &["--no-default-features", "--features", "search"] };

impl Tool {
    /// The program, which is installed first where it is missing.
    pub(crate) fn find_or_install(&self) -> Result<PathBuf> {
        let tools = process::cache_dir()?.join("tools");
        let program = self.program(&tools);
        if !program.is_file() {
            println!("Installing {} {} into {}; this happens once.", self.name, self.version, tools.display());
            let build = tools.join(format!("build-{}-{}", self.name, std::process::id()));
            let installed = process::run(&mut self.install(&tools, &build));
            if build.is_dir() {
                fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
            }
            installed.with_context(|| format!("cannot install {}", self.name))?;
        }
        Ok(program)
    }

    /// Folder of one version, so that another clone with another version can use the same cache.
    fn root(&self, tools: &Path) -> PathBuf {
        tools.join(format!("{}-{}", self.name, self.version))
    }

    fn program(&self, tools: &Path) -> PathBuf {
        self.root(tools).join("bin").join(self.name)
    }

    fn install(&self, tools: &Path, build: &Path) -> Command {
        let mut command = process::cargo_anywhere();
        // Outside of the repository: its profiles and its toolchain file are not for other programs.
        command.current_dir(std::env::temp_dir());
        command.args(["install", self.name, "--version", self.version, "--locked", "--debug", "--root"]);
        command.arg(self.root(tools)).args(self.options);
        command.env("CARGO_TARGET_DIR", build).env("CARGO_PROFILE_DEV_DEBUG", "0");
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_installed_by_version_into_a_folder_of_its_own() {
        let (tools, build) = (Path::new("/cache/tools"), Path::new("/cache/tools/build"));
        assert_eq!(MDBOOK.program(tools), Path::new("/cache/tools/mdbook-0.5.4/bin/mdbook"));
        let command = MDBOOK.install(tools, build);
        assert_eq!(
            process::shown(&command).split_once(' ').map(|(_, arguments)| arguments),
            Some(
                "install mdbook --version 0.5.4 --locked --debug --root /cache/tools/mdbook-0.5.4 \
                 --no-default-features --features search"
            )
        );
        let target = command.get_envs().find_map(|(key, value)| (key == "CARGO_TARGET_DIR").then_some(value?));
        assert_eq!(target, Some(build.as_os_str()));
    }
}
