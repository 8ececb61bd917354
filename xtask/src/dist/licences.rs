//! Licences of everything that is linked into the program: a list, and the texts from the sources of each crate.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::process;
use crate::workspace::Workspace;

/// How files with licences start, in lower case.
const STARTS: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// Our own licence, whose text is in the archive anyway.
const OURS: &str = "Apache-2.0";

pub(super) struct Licences {
    /// A table of all crates.
    pub(super) list: String,
    /// Paths and texts.
    pub(super) texts: Vec<(String, Vec<u8>)>,
}

/// Licences of all crates from a registry that `package` is made of on the system `host`.
pub(super) fn of_dependencies(workspace: &Workspace, package: &str, host: &str) -> Result<Licences> {
    let mut command = process::cargo(workspace);
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host]);
    let metadata: Metadata =
        serde_json::from_str(&process::output(&mut command)?).context("cannot read the answer of `cargo metadata`")?;
    collect(&metadata.linked(package)?)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// None for crates of the workspace.
    source: Option<String>,
    manifest_path: PathBuf,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    /// None for what is linked; `dev` and `build` for the rest.
    kind: Option<String>,
}

impl Metadata {
    /// Crates of others that a package is linked with, by name and version.
    fn linked(&self, package: &str) -> Result<Vec<&Package>> {
        let packages: BTreeMap<&str, &Package> = self.packages.iter().map(|found| (found.id.as_str(), found)).collect();
        let nodes: BTreeMap<&str, &Node> = self.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
        let is_root = |found: &&Package| found.name == package && found.source.is_none();
        let root = self.packages.iter().find(is_root).with_context(|| format!("no package {package}"))?;
        let mut seen = BTreeSet::new();
        let mut open = vec![root.id.as_str()];
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                let linked = nodes.get(id).into_iter().flat_map(|node| &node.deps);
                let linked = linked.filter(|of| of.dep_kinds.iter().any(|usage| usage.kind.is_none()));
                open.extend(linked.map(|of| of.pkg.as_str()));
            }
        }
        let found = seen.iter().filter_map(|id| packages.get(id).copied());
        let mut linked: Vec<&Package> = found.filter(|package| package.source.is_some()).collect();
        linked.sort_by_key(|package| (&package.name, &package.version));
        Ok(linked)
    }
}

fn collect(packages: &[&Package]) -> Result<Licences> {
    let mut list =
        "# Licences of dependencies\n\nKodiak is linked with these crates. Their licence texts are in folders \
                    beside this file.\n\n| crate | version | licence |\n|---|---|---|\n"
            .to_owned();
    let mut texts = Vec::new();
    for Package { name, version, license, manifest_path, .. } in packages {
        let licence = license.as_deref().unwrap_or("see its files");
        let files = files(manifest_path.parent().unwrap_or(manifest_path))?;
        let mut note = String::new();
        if files.is_empty() {
            if !licence.contains(OURS) {
                bail!("the source of {name} {version} ({licence}) has no file with its licence: add the text by hand");
            }
            " (no file in its source; the text of Apache-2.0 is ../LICENSE)".clone_into(&mut note);
        }
        let _ = writeln!(list, "| {name} | {version} | {licence}{note} |");
        for path in files {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            texts.push((format!("{name}-{version}/{file}"), bytes));
        }
    }
    Ok(Licences { list, texts })
}

/// Files with licences at the top of a crate's source, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if path.is_file() && STARTS.iter().any(|start| name.starts_with(start)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn metadata(folder: &Path) -> Metadata {
        let package = |name: &str, source: Option<&str>, license: &str| {
            let manifest = folder.join(name).join("Cargo.toml");
            json!({"id": name, "name": name, "version": "1.0.0", "license": license, "source": source,
                   "manifest_path": manifest})
        };
        let uses = |name: &str, kind: Option<&str>| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        serde_json::from_value(json!({
            "packages": [package("kodiak", None, "Apache-2.0"), package("ours", None, "Apache-2.0"),
                package("linked", Some("registry"), "MIT"), package("plain", Some("registry"), "MIT/Apache-2.0"),
                package("test-only", Some("registry"), "MIT")],
            "resolve": {"nodes": [
                {"id": "kodiak", "deps": [uses("ours", None), uses("test-only", Some("dev"))]},
                {"id": "ours", "deps": [uses("linked", None), uses("plain", None)]},
                {"id": "linked", "deps": []}, {"id": "plain", "deps": []}, {"id": "test-only", "deps": []}]},
        }))
        .unwrap()
    }

    #[test]
    fn linked_crates_of_others_are_listed_with_their_texts() {
        let scratch = tempfile::tempdir().unwrap();
        for (path, text) in [("linked/LICENSE-MIT", "MIT text"), ("linked/lib.rs", ""), ("plain/lib.rs", "")] {
            let path = scratch.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let metadata = metadata(scratch.path());
        let licences = collect(&metadata.linked("kodiak").unwrap()).unwrap();
        assert!(licences.list.contains("| linked | 1.0.0 | MIT |\n"), "{}", licences.list);
        assert!(licences.list.contains("| plain | 1.0.0 | MIT/Apache-2.0 (no file"), "{}", licences.list);
        assert!(!licences.list.contains("test-only") && !licences.list.contains("ours"), "{}", licences.list);
        assert_eq!(licences.texts, [("linked-1.0.0/LICENSE-MIT".to_owned(), b"MIT text".to_vec())]);
    }

    #[test]
    fn a_crate_without_a_text_is_an_error() {
        let scratch = tempfile::tempdir().unwrap();
        for folder in ["linked", "plain"] {
            fs::create_dir_all(scratch.path().join(folder)).unwrap();
        }
        let metadata = metadata(scratch.path());
        let error = collect(&metadata.linked("kodiak").unwrap()).err().unwrap().to_string();
        assert!(error.starts_with("the source of linked 1.0.0 (MIT) has no file with its licence"), "{error}");
    }

    #[test]
    fn all_dependencies_of_the_program_have_a_licence() {
        let workspace = Workspace::find().unwrap();
        let licences = of_dependencies(&workspace, "kodiak", "x86_64-unknown-linux-gnu").unwrap();
        assert!(licences.texts.iter().any(|(path, _)| path.starts_with("serde-1")));
        assert!(!licences.list.contains("| kodiak"));
    }
}
