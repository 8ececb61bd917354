//! Locates the .proto files: in the source of a crate that cargo fetches but never compiles.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The crate with the .proto files.
const CARRIER: &str = "envoy-types";

/// Import folders, the one with the well-known types last.
pub(crate) fn folders() -> Result<Vec<PathBuf>> {
    let proto = carrier()?.join("proto");
    let listed = proto.read_dir().with_context(|| format!("cannot read {}", proto.display()))?;
    let mut folders = listed.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    folders.sort();
    folders.push(protoc_bin_vendored::include_path().context("protoc comes without the well-known types")?);
    Ok(folders)
}

/// Source folder of the crate, from cargo's metadata.
fn carrier() -> Result<PathBuf> {
    let manifest = crate::own_folder().join("Cargo.toml");
    // The dependency is optional and disabled; cargo lists it only with all features.
    let arguments = ["metadata", "--locked", "--all-features", "--format-version", "1", "--manifest-path"];
    let output = Command::new("cargo").args(arguments).arg(manifest).output().context("cannot run cargo")?;
    ensure!(output.status.success(), "cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cannot parse cargo's metadata")?;
    let packages = metadata["packages"].as_array().context("cargo lists no packages")?;
    let found = packages.iter().find(|package| package["name"] == CARRIER);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let manifest = Path::new(manifest.with_context(|| format!("cargo lists no package {CARRIER}"))?);
    Ok(manifest.parent().context("a manifest lies in a folder")?.to_owned())
}
