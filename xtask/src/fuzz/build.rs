//! Builds the fuzz targets with coverage instrumentation for libFuzzer.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

use super::MANIFEST;

/// The flags of cargo-fuzz with `--sanitizer none`: coverage, and our own assertions. Memory errors need no sanitizer
/// here, since unsafe code is forbidden.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Ccodegen-units=1",
    "-Cdebug-assertions",
    "-Coverflow-checks",
];

/// Builds the targets and returns their programs, in the same order.
pub(super) fn build(workspace: &Workspace, targets: &[String]) -> Result<Vec<PathBuf>> {
    let host = host()?;
    let folder = workspace.metadata("Cargo.toml")?.target_dir.join("fuzz");
    let mut command = process::cargo(workspace);
    // With `--target`, the flags apply only to the targets, and not to build scripts and macros, which cargo loads.
    command
        .args(["build", "--release", "--manifest-path", MANIFEST, "--target", &host, "--target-dir"])
        .arg(&folder)
        .env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f"));
    for target in targets {
        command.args(["--bin", target]);
    }
    process::run(&mut command).context("cannot build the fuzz targets (libFuzzer needs a C++ compiler)")?;
    Ok(targets.iter().map(|target| folder.join(&host).join("release").join(target)).collect())
}

/// Target triple of this machine.
fn host() -> Result<String> {
    let text = process::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names its host")?.to_owned())
}
