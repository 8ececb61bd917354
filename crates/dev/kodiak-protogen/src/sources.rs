//! Locates the .proto files: in the source of a crate that cargo fetches but never compiles.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The crate with the .proto files.
const CARRIER: &str = "envoy-types";

/// Folder of Envoy's own files.
const ENVOY: &str = "proto/data-plane-api";
/// Below [`ENVOY`], folders with configuration.
const CONFIGURATION: &[&str] = &["envoy/config", "envoy/extensions", "envoy/type"];

/// Import folders, the one with the well-known types last.
pub(crate) fn folders() -> Result<Vec<PathBuf>> {
    let proto = carrier()?.join("proto");
    let mut folders = listed(&proto)?;
    // Imports start with `cel/`, one folder deeper than in the other sources.
    folders.push(proto.join("cel-spec/proto"));
    folders.push(protoc_bin_vendored::include_path().context("protoc comes without the well-known types")?);
    Ok(folders)
}

/// All files with configuration in version 3 of Envoy's API, sorted.
pub(crate) fn of_envoy() -> Result<Vec<String>> {
    let root = carrier()?.join(ENVOY);
    let mut folders: Vec<PathBuf> = CONFIGURATION.iter().map(|folder| root.join(folder)).collect();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        let is_current = folder.ends_with("v3");
        for path in listed(&folder)? {
            if path.is_dir() {
                folders.push(path);
            } else if is_current && path.extension().is_some_and(|extension| extension == "proto") {
                let path = path.strip_prefix(&root).context("the file lies below Envoy's folder")?;
                files.push(path.to_str().context("names of .proto files are text")?.to_owned());
            }
        }
    }
    files.sort();
    Ok(files)
}

/// Entries of a folder, sorted.
fn listed(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir().with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
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
