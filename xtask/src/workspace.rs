//! The repository as cargo describes it: root, crates, dependencies and crate roots.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use crate::process;

/// Location of the repository; [`Workspace::metadata`] queries cargo for more.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
}

/// One crate. Paths are relative to the root, with `/` as separator.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) manifest: String,
    pub(crate) dependencies: Vec<Dependency>,
    /// Crate roots: libraries, programs, tests, examples, build scripts.
    pub(crate) roots: Vec<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    #[serde(default, rename = "kind", deserialize_with = "null_is_normal")]
    pub(crate) usage: Usage,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Usage {
    #[default]
    Normal,
    Dev,
    Build,
}

pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_dir: PathBuf,
}

impl Workspace {
    /// The repository from cargo's environment, or else the one in which this program was built.
    pub(crate) fn find() -> Result<Self> {
        let xtask = env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
        let root = xtask.parent().context("xtask lies in a folder of the repository")?.to_owned();
        Ok(Self { root })
    }

    /// cargo's metadata for the workspace of a manifest, whose path is relative to the root.
    pub(crate) fn metadata(&self, manifest: &str) -> Result<Metadata> {
        let mut command = process::cargo(self);
        command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path", manifest]);
        Metadata::from_json(&self.root, &process::output(&mut command)?)
    }
}

impl Metadata {
    fn from_json(root: &Path, json: &str) -> Result<Self> {
        let raw: RawMetadata = serde_json::from_str(json).context("cannot read the answer of `cargo metadata`")?;
        let packages = raw.packages.into_iter().map(|raw| Package {
            name: raw.name,
            manifest: relative(root, &raw.manifest_path),
            dependencies: raw.dependencies,
            roots: raw.targets.iter().map(|target| relative(root, &target.src_path)).collect(),
        });
        Ok(Self { packages: packages.collect(), target_dir: raw.target_directory })
    }
}

#[derive(Deserialize)]
struct RawMetadata {
    packages: Vec<RawPackage>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct RawPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<RawTarget>,
}

#[derive(Deserialize)]
struct RawTarget {
    src_path: PathBuf,
}

fn null_is_normal<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Usage, D::Error> {
    Ok(Option::<Usage>::deserialize(deserializer)?.unwrap_or_default())
}

/// The path below `root` with `/` as separator; other paths stay unchanged.
pub(crate) fn relative(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    below.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_read_with_paths_below_the_root() {
        let json = r#"{"target_directory": "/t", "packages": [{
            "name": "a", "manifest_path": "/repo/crates/a/Cargo.toml",
            "dependencies": [{"name": "b", "kind": null}, {"name": "c", "kind": "dev"}, {"name": "d", "kind": "build"}],
            "targets": [{"src_path": "/repo/crates/a/src/lib.rs"}]
        }]}"#;
        let metadata = Metadata::from_json(Path::new("/repo"), json).unwrap();
        let package = &metadata.packages[0];
        assert_eq!(metadata.target_dir, Path::new("/t"));
        assert_eq!((package.name.as_str(), package.manifest.as_str()), ("a", "crates/a/Cargo.toml"));
        assert_eq!(package.roots, ["crates/a/src/lib.rs"]);
        let usages: Vec<_> = package.dependencies.iter().map(|dependency| dependency.usage).collect();
        assert_eq!(usages, [Usage::Normal, Usage::Dev, Usage::Build]);
    }

    #[test]
    fn this_repository_is_found() {
        let workspace = Workspace::find().unwrap();
        assert!(workspace.root.join("xtask/Cargo.toml").is_file());
    }
}
