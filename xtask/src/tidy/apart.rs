//! Crates that are kept apart: an edit of one must not recompile the other, not even through crates between them.

use std::collections::BTreeSet;

use super::Repository;
use super::finding::Findings;
use crate::workspace::{Package, Usage};

struct Apart {
    from: &'static str,
    /// Crates that it must not reach through any chain of dependencies.
    to: &'static [&'static str],
    advice: &'static str,
}

/// Crates of the control plane.
const CONTROL_PLANE: &[&str] = &[
    "kodiak-cp",
    "kodiak-engine",
    "kodiak-store",
    "kodiak-catalog",
    "kodiak-api",
    "kodiak-ads",
    "kodiak-ca",
    "kodiak-proxies",
    "kodiak-reconcilers",
];

const APART: &[Apart] = &[
    Apart {
        from: "kodiak-client",
        to: &["kodiak-cli", "clap"],
        advice: "the REST client is a library for others; move the code to the command line",
    },
    Apart {
        from: "kodiak-client",
        to: CONTROL_PLANE,
        advice: "the REST client is a library for others; move the code to who needs it",
    },
    Apart {
        from: "kodiak-terminal",
        to: CONTROL_PLANE,
        advice: "every command depends on it; move the code to the command",
    },
    Apart {
        from: "kodiak-cli",
        to: CONTROL_PLANE,
        advice: "an edit of the control plane must not recompile the command line; move the command to crates/bin/kodiak",
    },
    Apart {
        from: "kodiak-cp",
        to: &["kodiak-cli", "kodiak-terminal", "clap"],
        advice: "an edit of a help text must not recompile the control plane; move the code to crates/bin/kodiak",
    },
];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for Apart { from, to, advice } in APART {
        let Some(package) = repository.packages.iter().find(|package| package.name == *from) else { continue };
        for (reached, chain) in reach(&repository.packages, package) {
            if to.contains(&reached) {
                findings.fault(&package.manifest, 1, format!("{from} must not reach {reached} ({chain}); {advice}"));
            }
        }
    }
}

/// Everything that a crate is compiled with, as far as manifests of ours say so, each with the chain that leads there.
fn reach<'a>(packages: &'a [Package], from: &'a Package) -> Vec<(&'a str, String)> {
    let mut seen = BTreeSet::from([from.name.as_str()]);
    let mut found: Vec<(&str, String)> = Vec::new();
    let mut open = vec![(from, from.name.clone())];
    while let Some((package, chain)) = open.pop() {
        for dependency in package.dependencies.iter().filter(|dependency| dependency.usage != Usage::Dev) {
            if !seen.insert(&dependency.name) {
                continue;
            }
            let chain = format!("{chain} -> {}", dependency.name);
            if let Some(ours) = packages.iter().find(|package| package.name == dependency.name) {
                open.push((ours, chain.clone()));
            }
            found.push((&dependency.name, chain));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    fn findings(packages: Vec<Package>) -> Vec<String> {
        testing::check(check, &Repository { packages, ..testing::repository(&[]) })
    }

    #[test]
    fn refuses_a_chain_from_the_command_line_to_the_store() {
        let found = findings(vec![
            testing::package("crates/bin/kodiak-cli", &[("kodiak-between", Usage::Normal)]),
            testing::package("crates/edge/kodiak-between", &[("kodiak-store", Usage::Normal)]),
            testing::package("crates/edge/kodiak-store", &[]),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("kodiak-cli must not reach kodiak-store (kodiak-cli -> kodiak-between -> kodiak-store)")
        );
    }

    #[test]
    fn refuses_clap_in_the_control_plane() {
        let found = findings(vec![testing::package("crates/bin/kodiak-cp", &[("clap", Usage::Normal)])]);
        assert!(found[0].contains("kodiak-cp must not reach clap"), "{found:?}");
    }

    #[test]
    fn allows_test_dependencies_and_crates_that_are_not_apart() {
        let found = findings(vec![
            testing::package("crates/bin/kodiak", &[("kodiak-cp", Usage::Normal), ("kodiak-cli", Usage::Normal)]),
            testing::package("crates/bin/kodiak-cli", &[("kodiak-cp", Usage::Dev), ("kodiak-client", Usage::Normal)]),
            testing::package("crates/edge/kodiak-client", &[("kodiak-model", Usage::Normal)]),
        ]);
        assert_eq!(found, [""; 0]);
    }
}
