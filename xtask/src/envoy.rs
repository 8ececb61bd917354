//! Installs Envoy for tests, with `kodiak`'s own command.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// The tests use this program first.
const PROGRAM: &str = "KODIAK_ENVOY";
/// With this set, tests that need Envoy fail instead of being skipped.
const REQUIRE: &str = "KODIAK_REQUIRE_ENVOY";

/// The pinned Envoy.
pub(crate) struct Envoy {
    pub(crate) program: PathBuf,
}

impl Envoy {
    pub(crate) fn find_or_install(workspace: &Workspace) -> Result<Self> {
        let mut command = process::cargo(workspace);
        let path = process::output(command.args(["run", "-q", "-p", "kodiak", "--", "dp", "install-envoy"]))
            .context("Envoy cannot be installed, and tests need it")?;
        Ok(Self { program: PathBuf::from(path.trim_end()) })
    }

    /// Passes it to the tests that `command` starts, and makes it mandatory.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env(PROGRAM, &self.program).env(REQUIRE, "1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_must_use_the_installed_envoy() {
        let mut command = Command::new("true");
        Envoy { program: PathBuf::from("/cache/envoy") }.prepare(&mut command);
        let set = |name: &str| command.get_envs().find_map(|(key, value)| (key == name).then_some(value?));
        assert_eq!(set(PROGRAM), Some("/cache/envoy".as_ref()));
        assert_eq!(set(REQUIRE), Some("1".as_ref()));
    }
}
