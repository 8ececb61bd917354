//! Allowed dependencies between workspace crates: they follow the data flow, which Cargo does not enforce.

use super::Repository;
use super::finding::Findings;
use crate::workspace::{Dependency, Package, Usage};

/// Workspace crates that a crate may depend on.
enum Uses {
    Only(&'static [&'static str]),
    /// All crates in these groups, which are the folders of `crates/`.
    Groups(&'static [&'static str]),
    Anything,
}

use Uses::{Anything, Groups, Only};

/// A crate that is not listed is rejected, so that its place is decided when it is created.
const ALLOWED: &[(&str, Uses)] = &[
    ("kodiak-model", Only(&[])),
    ("kodiak-envoy", Only(&[])),
    ("kodiak-policies", Only(&["kodiak-model", "kodiak-envoy"])),
    ("kodiak-rules", Only(&["kodiak-model"])),
    ("kodiak-kinds", Only(&["kodiak-model", "kodiak-policies"])),
    ("kodiak-world", Only(&["kodiak-model", "kodiak-rules", "kodiak-kinds"])),
    ("kodiak-services", Only(&["kodiak-identity", "kodiak-model", "kodiak-rollout", "kodiak-rules", "kodiak-world"])),
    ("kodiak-rollout", Only(&["kodiak-model"])),
    ("kodiak-identity", Only(&["kodiak-model", "kodiak-policies", "kodiak-rollout", "kodiak-rules", "kodiak-world"])),
    (
        "kodiak-reachability",
        Only(&[
            "kodiak-identity",
            "kodiak-model",
            "kodiak-policies",
            "kodiak-rules",
            "kodiak-rollout",
            "kodiak-services",
            "kodiak-world",
        ]),
    ),
    (
        "kodiak-inspection",
        Only(&[
            "kodiak-identity",
            "kodiak-model",
            "kodiak-rules",
            "kodiak-world",
            "kodiak-services",
            "kodiak-rollout",
            "kodiak-policies",
            "kodiak-reachability",
            "kodiak-traffic",
            "kodiak-xds",
        ]),
    ),
    (
        "kodiak-traffic",
        Only(&["kodiak-envoy", "kodiak-kinds", "kodiak-model", "kodiak-rules", "kodiak-world", "kodiak-xds"]),
    ),
    (
        "kodiak-migration",
        Only(&[
            "kodiak-identity",
            "kodiak-kinds",
            "kodiak-model",
            "kodiak-policies",
            "kodiak-reachability",
            "kodiak-rules",
            "kodiak-world",
            "kodiak-services",
            "kodiak-inspection",
        ]),
    ),
    ("kodiak-xds-stream", Only(&[])),
    ("kodiak-xds", Only(&["kodiak-model", "kodiak-envoy", "kodiak-policies", "kodiak-xds-stream"])),
    (
        "kodiak-engine",
        Only(&[
            "kodiak-identity",
            "kodiak-model",
            "kodiak-envoy",
            "kodiak-policies",
            "kodiak-rules",
            "kodiak-kinds",
            "kodiak-world",
            "kodiak-services",
            "kodiak-rollout",
            "kodiak-reachability",
            "kodiak-xds",
            "kodiak-xds-stream",
        ]),
    ),
    ("kodiak-metrics", Only(&[])),
    ("kodiak-store", Only(&["kodiak-model", "kodiak-world", "kodiak-metrics"])),
    ("kodiak-crypto", Only(&[])),
    ("kodiak-tokens", Only(&["kodiak-crypto"])),
    (
        "kodiak-catalog",
        Only(&[
            "kodiak-model",
            "kodiak-kinds",
            "kodiak-identity",
            "kodiak-rollout",
            "kodiak-rules",
            "kodiak-services",
            "kodiak-world",
            "kodiak-store",
            "kodiak-crypto",
            "kodiak-tokens",
        ]),
    ),
    ("kodiak-listen", Only(&["kodiak-metrics"])),
    ("kodiak-pool", Only(&["kodiak-model"])),
    (
        "kodiak-mads",
        Only(&["kodiak-model", "kodiak-world", "kodiak-inspection", "kodiak-store", "kodiak-listen", "kodiak-pool"]),
    ),
    ("kodiak-ads", Only(&["kodiak-envoy", "kodiak-xds-stream", "kodiak-listen"])),
    (
        "kodiak-ca",
        Only(&[
            "kodiak-model",
            "kodiak-rollout",
            "kodiak-engine",
            "kodiak-xds",
            "kodiak-xds-stream",
            "kodiak-crypto",
            "kodiak-world",
            "kodiak-store",
            "kodiak-catalog",
            "kodiak-metrics",
        ]),
    ),
    (
        "kodiak-proxies",
        Only(&[
            "kodiak-model",
            "kodiak-kinds",
            "kodiak-envoy",
            "kodiak-xds",
            "kodiak-xds-stream",
            "kodiak-traffic",
            "kodiak-world",
            "kodiak-store",
            "kodiak-catalog",
            "kodiak-tokens",
            "kodiak-ads",
            "kodiak-listen",
            "kodiak-metrics",
        ]),
    ),
    (
        "kodiak-reconcilers",
        Only(&[
            "kodiak-model",
            "kodiak-world",
            "kodiak-services",
            "kodiak-rollout",
            "kodiak-xds",
            "kodiak-store",
            "kodiak-catalog",
            "kodiak-crypto",
            "kodiak-identity",
        ]),
    ),
    (
        "kodiak-api",
        Only(&[
            "kodiak-identity",
            "kodiak-model",
            "kodiak-kinds",
            "kodiak-rules",
            "kodiak-rollout",
            "kodiak-world",
            "kodiak-reachability",
            "kodiak-inspection",
            "kodiak-migration",
            "kodiak-traffic",
            "kodiak-store",
            "kodiak-catalog",
            "kodiak-tokens",
            "kodiak-crypto",
            "kodiak-pool",
            "kodiak-listen",
            "kodiak-metrics",
        ]),
    ),
    // A library for others, without control plane or command line. Its tests use the table of kinds.
    ("kodiak-client", Only(&["kodiak-model", "kodiak-crypto", "kodiak-kinds"])),
    ("kodiak-cp", Groups(&["core", "edge"])),
    ("kodiak-dp", Groups(&["core", "edge"])),
    ("kodiak-terminal", Only(&["kodiak-model"])),
    (
        "kodiak-cli",
        Only(&[
            "kodiak-model",
            "kodiak-kinds",
            "kodiak-policies",
            "kodiak-rules",
            "kodiak-world",
            "kodiak-reachability",
            "kodiak-inspection",
            "kodiak-migration",
            "kodiak-xds",
            "kodiak-crypto",
            "kodiak-tokens",
            "kodiak-client",
            "kodiak-dp",
            "kodiak-terminal",
        ]),
    ),
    ("kodiak-demo", Groups(&["core", "edge", "bin"])),
    // It measures parts on their own, and the whole as a process that it starts.
    ("kodiak-bench", Groups(&["core", "edge", "bin"])),
    ("kodiak", Anything),
    ("kodiak-oracle", Anything),
    ("kodiak-testkit", Anything),
    ("kodiak-conformance", Anything),
    ("kodiak-compat", Anything),
    ("kodiak-protogen", Only(&[])),
    ("xtask", Only(&[])),
];

/// The group of crates for tests: shipped code may not depend on them.
const FOR_TESTS: &str = "dev";
/// The crate that tests of these groups may use.
const TESTKIT: (&str, &[&str]) = ("kodiak-testkit", &["edge", "bin"]);

/// Crates with I/O, clocks or randomness, or the frameworks around them. The core may not use them.
pub(super) const BANNED_IN_CORE: &[&str] = &[
    "async-trait",
    "aws-lc-rs",
    "axum",
    "futures-util",
    "getrandom",
    "h2",
    "hyper",
    "hyper-util",
    "jsonwebtoken",
    "k8s-openapi",
    "kube",
    "mio",
    "rand",
    "rcgen",
    "redb",
    "reqwest",
    "rustls",
    "sqlx",
    "tokio",
    "tokio-rustls",
    "tokio-stream",
    "tokio-util",
    "tonic",
    "tower",
    "tracing-subscriber",
];
pub(super) const CORE: &str = "core";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for package in &repository.packages {
        let line = |dependency: &Dependency| line_of(repository, package, &dependency.name);
        let Some((_, uses)) = ALLOWED.iter().find(|(name, _)| *name == package.name) else {
            let advice = "add it to `ALLOWED` in xtask/src/tidy/edges.rs";
            findings.fault(&package.manifest, 1, format!("{} has no allowed dependencies; {advice}", package.name));
            continue;
        };
        for dependency in &package.dependencies {
            let ours = repository.packages.iter().find(|other| other.name == dependency.name);
            if let Some(refusal) = ours.and_then(|ours| refuse_ours(package, uses, ours, dependency.usage)) {
                findings.fault(&package.manifest, line(dependency), refusal);
            }
            if group(package) == CORE && BANNED_IN_CORE.contains(&dependency.name.as_str()) {
                let refusal =
                    format!("the core is pure and must not use {}; move the code to crates/edge", dependency.name);
                findings.fault(&package.manifest, line(dependency), refusal);
            }
        }
    }
}

/// Why `package` may not use `other`; `None` when it may.
fn refuse_ours(package: &Package, uses: &Uses, other: &Package, usage: Usage) -> Option<String> {
    let (from, to) = (&package.name, &other.name);
    if group(other) == FOR_TESTS && group(package) != FOR_TESTS {
        if usage != Usage::Dev {
            return Some(format!("{to} is for tests; {from} may use it under [dev-dependencies] only"));
        }
        if *to == TESTKIT.0 && TESTKIT.1.contains(&group(package)) {
            return None;
        }
    }
    let allowed = match uses {
        Only(names) => names.contains(&to.as_str()),
        Groups(groups) => groups.contains(&group(other)),
        Anything => true,
    };
    let advice = "invert the dependency, move the code, or change `ALLOWED` in xtask/src/tidy/edges.rs";
    (!allowed).then(|| format!("{from} must not use {to}; {advice}"))
}

/// `core` for `crates/core/kodiak-model/Cargo.toml`; empty outside `crates`.
pub(super) fn group(package: &Package) -> &str {
    let in_crates = package.manifest.strip_prefix("crates/").and_then(|rest| rest.split('/').next());
    in_crates.unwrap_or_default()
}

/// Line of a dependency in the manifest.
fn line_of(repository: &Repository, package: &Package, dependency: &str) -> usize {
    let names_it = |line: &str| {
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default();
        name == dependency || line.contains(&format!("dependencies.{dependency}]"))
    };
    let text = repository.tree.text(&package.manifest).unwrap_or_default();
    text.lines().position(names_it).map_or(1, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    fn check_packages(packages: Vec<Package>) -> Vec<String> {
        let manifest = "[package]\nname = \"kodiak-model\"\n\n[dependencies]\ntokio.workspace = true\n";
        let repository =
            Repository { packages, ..testing::repository(&[("crates/core/kodiak-model/Cargo.toml", manifest)]) };
        testing::check(check, &repository)
    }

    #[test]
    fn rejects_an_edge_that_is_not_in_the_table() {
        let findings = check_packages(vec![
            testing::package(
                "crates/core/kodiak-policies",
                &[("kodiak-model", Usage::Normal), ("serde", Usage::Normal)],
            ),
            testing::package("crates/core/kodiak-model", &[("kodiak-policies", Usage::Dev)]),
        ]);
        let expected = "crates/core/kodiak-model/Cargo.toml:1: kodiak-model must not use kodiak-policies; invert the dependency, \
                        move the code, or change `ALLOWED` in xtask/src/tidy/edges.rs";
        assert_eq!(findings, [expected]);
    }

    #[test]
    fn core_must_be_pure_and_the_line_is_shown() {
        let findings = check_packages(vec![testing::package("crates/core/kodiak-model", &[("tokio", Usage::Normal)])]);
        let expected = "crates/core/kodiak-model/Cargo.toml:5: the core is pure and must not use tokio; move the code to \
                        crates/edge";
        assert_eq!(findings, [expected]);
    }

    #[test]
    fn new_crate_must_be_listed() {
        let findings = check_packages(vec![testing::package("crates/edge/kodiak-new", &[])]);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].starts_with("crates/edge/kodiak-new/Cargo.toml:1: kodiak-new has no allowed dependencies"));
    }

    #[test]
    fn the_testkit_is_for_tests_of_edge_and_bin() {
        let testkit = || testing::package("crates/dev/kodiak-testkit", &[("kodiak-cp", Usage::Normal)]);
        let with =
            |folder, usage| check_packages(vec![testkit(), testing::package(folder, &[("kodiak-testkit", usage)])]);
        assert!(with("crates/edge/kodiak-store", Usage::Dev).is_empty());
        assert!(with("crates/bin/kodiak-cp", Usage::Dev).is_empty());
        assert!(with("crates/dev/kodiak-conformance", Usage::Normal).is_empty());
        assert!(with("crates/core/kodiak-model", Usage::Dev)[0].contains("must not use kodiak-testkit"));
        assert!(with("crates/bin/kodiak", Usage::Normal)[0].contains("under [dev-dependencies] only"));
    }

    #[test]
    fn groups_allow_all_their_crates() {
        let packages = |uses: &'static str| {
            vec![
                testing::package("crates/core/kodiak-model", &[]),
                testing::package("crates/bin/kodiak", &[("kodiak-cp", Usage::Normal)]),
                testing::package("crates/bin/kodiak-cp", &[(uses, Usage::Normal)]),
            ]
        };
        assert!(check_packages(packages("kodiak-model")).is_empty());
        assert!(check_packages(packages("kodiak"))[0].contains("kodiak-cp must not use kodiak;"));
    }
}
