//! Compiles and tests a new policy, written into a copy of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::policy;
use crate::copy::copy_all;
use crate::process;
use crate::workspace::Workspace;

/// Parts of the repository that the copy needs: the policies, their dependencies, and cargo's files.
const NEEDED: &[&str] = &["Cargo.toml", "Cargo.lock", "clippy.toml", "rustfmt.toml", "crates", "examples", "xtask"];

/// Fails when the folder that `new-policy` writes is incomplete: it must compile without warnings, its tests must pass,
/// and so must those of its README and its cases.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let target = workspace.metadata("Cargo.toml")?.target_dir;
    let copy = Workspace { root: target.join("new-policy") };
    remove(&copy.root)?;
    fs::create_dir_all(&copy.root).with_context(|| format!("cannot create {}", copy.root.display()))?;
    for name in NEEDED {
        copy_all(&workspace.root.join(name), &copy.root.join(name))?;
    }
    let name = "MeshTrial".to_owned();
    policy::write(&copy, &policy::Args { name, short: Some("trial".to_owned()), about: "a trial setting".to_owned() })?;
    let packages = ["--package", "kodiak-policies", "--package", "kodiak-kinds"];
    // The same target folder, so that only workspace crates are rebuilt. The outputs of new cases do not exist yet.
    let cargo = || {
        let mut command = process::cargo(&copy);
        command.env("CARGO_TARGET_DIR", &target).env("UPDATE", "1");
        command
    };
    process::run(cargo().arg("clippy").args(packages).args(["--all-targets", "--", "-D", "warnings"]))?;
    process::run(cargo().args(["test", "--quiet"]).args(packages))?;
    process::run(cargo().args(["test", "--quiet", "--package", "kodiak-testkit", "--test", "it", "cases"]))?;
    remove(&copy.root)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    Ok(())
}
