//! Transitive dependencies: a pure crate must not get a runtime through its dependencies' dependencies.

use anyhow::Result;

use super::Repository;
use super::edges::{BANNED_IN_CORE, CORE, group};
use super::finding::Findings;
use crate::process;
use crate::workspace::{Package, Workspace};

/// Crates that no workspace crate may depend on, each with the reason.
const BANNED: &[(&str, &str)] = &[
    (
        "ring",
        "aws-lc-rs is the one provider of cryptography; disable the default features of the crate that depends on it",
    ),
    ("openssl-sys", "rustls is the one TLS library; disable the default features of the crate that depends on it"),
    ("native-tls", "rustls is the one TLS library; disable the default features of the crate that depends on it"),
];

/// Everything that is compiled for some workspace crates, without tests and unused features.
#[derive(Default)]
pub(super) struct Closure {
    /// For each crate of the core.
    core: Vec<Brought>,
    workspace: Vec<String>,
}

struct Brought {
    package: String,
    manifest: String,
    names: Vec<String>,
}

impl Closure {
    pub(super) fn load(workspace: &Workspace, packages: &[Package]) -> Result<Self> {
        let mut core = Vec::new();
        for package in packages.iter().filter(|package| group(package) == CORE) {
            let names = names(&cargo_tree(workspace, &["--package", &package.name])?);
            core.push(Brought { package: package.name.clone(), manifest: package.manifest.clone(), names });
        }
        Ok(Self { core, workspace: names(&cargo_tree(workspace, &["--workspace"])?) })
    }
}

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let Closure { core, workspace } = &repository.closure;
    for Brought { package, manifest, names } in core {
        for banned in names.iter().filter(|name| BANNED_IN_CORE.contains(&name.as_str())) {
            let advice = format!("find the path with `cargo tree -e normal -p {package} -i {banned}`, and remove it");
            findings.fault(manifest, 1, format!("the core is pure, but {package} depends on {banned}; {advice}"));
        }
    }
    for (banned, reason) in BANNED.iter().filter(|(banned, _)| workspace.iter().any(|name| name == banned)) {
        let advice = format!("find the path with `cargo tree --workspace -i {banned}`");
        findings.fault("Cargo.toml", 1, format!("the workspace depends on {banned}, but {reason}; {advice}"));
    }
}

fn cargo_tree(workspace: &Workspace, which: &[&str]) -> Result<String> {
    let mut command = process::cargo(workspace);
    command.args(["tree", "--quiet", "--edges", "normal", "--prefix", "none", "--format", "{p}", "--target", "all"]);
    process::output(command.args(which))
}

/// From lines such as `tokio v1.2.3 (*)`.
fn names(tree: &str) -> Vec<String> {
    let mut names: Vec<_> = tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn names_are_read_once_each() {
        let tree = "kodiak-model v0.1.0 (/repo/crates/core/kodiak-model)\nserde v1.0.0\nserde v1.0.0 (*)\n";
        assert_eq!(names(tree), ["kodiak-model", "serde"]);
    }

    #[test]
    fn reports_a_runtime_behind_a_dependency() {
        let names = vec!["envoy-types".to_owned(), "tokio".to_owned()];
        let manifest = "crates/core/kodiak-model/Cargo.toml".to_owned();
        let core = vec![Brought { package: "kodiak-model".to_owned(), manifest, names }];
        let closure = Closure { core, workspace: vec!["ring".to_owned(), "tokio".to_owned()] };
        let findings = testing::check(check, &Repository { closure, ..testing::repository(&[]) });
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("Cargo.toml:1: the workspace depends on ring, but aws-lc-rs is"));
        assert!(findings[1].starts_with(
            "crates/core/kodiak-model/Cargo.toml:1: the core is pure, but kodiak-model depends on tokio;"
        ));
    }
}
