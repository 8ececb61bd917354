//! Folders of policies and kinds are complete, all with the same files, and registered.

use super::Repository;
use super::finding::Findings;
use super::tree::Tree;
use crate::families::{self, Family, KINDS, Listing, POLICIES};

/// Required files of a family of folders.
struct Shape {
    family: &'static Family,
    /// Prefix of their names; other folders are ignored.
    prefix: &'static str,
    parts: &'static [Part],
}

/// A requirement of a folder, with alternatives.
struct Part {
    forms: &'static [&'static str],
    /// Text in `mod.rs` that waives it.
    unless: Option<&'static str>,
    why: &'static str,
}

const README: Part = Part { forms: &["README.md"], unless: None, why: "it documents the kind" };
const MOD: Part = Part { forms: &["mod.rs"], unless: None, why: "it holds the `KIND`" };
const SPEC: Part = Part { forms: &["spec.rs", "spec/mod.rs"], unless: None, why: "it has the types of the spec" };
const CHECK: Part = Part { forms: &["check.rs", "check/mod.rs"], unless: None, why: "it validates the spec" };
/// Some kinds have no rules beyond their schema: their `check` has an empty body.
const CHECK_IF_RULES: Part = Part { unless: Some("&mut Problems) {}"), ..CHECK };

const SHAPES: &[Shape] = &[
    Shape { family: &POLICIES, prefix: "mesh_", parts: &[README, MOD, SPEC, CHECK] },
    Shape { family: &KINDS, prefix: "", parts: &[README, MOD, SPEC, CHECK_IF_RULES] },
];

const IN: &str = ".in.yaml";
const OUT: &str = ".out.yaml";
/// Suffixes of outputs and inputs of cases: stored form and documents, proxy configuration and mesh.
const CASES: &[(&str, &str)] = &[(OUT, IN), (".xds.yaml", ".mesh.yaml")];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let tree = &repository.tree;
    for Shape { family, prefix, parts } in SHAPES {
        let list = tree.text(family.list).unwrap_or_default();
        for name in tree.folders_in(family.folder).into_iter().filter(|name| name.starts_with(prefix)) {
            let folder = format!("{}/{name}", family.folder);
            check_parts(tree, parts, &folder, findings);
            check_cases(tree, &format!("{folder}/cases"), findings);
            if let Some(missing) = missing_entry(family, list, name) {
                findings.fault(family.list, 1, format!("has no {missing}; add it to register {name}"));
            }
        }
    }
}

/// The missing entry of the list for the folder, if any.
fn missing_entry(family: &Family, list: &str, name: &str) -> Option<String> {
    let (there, entry) = match family.listing {
        Listing::Items => (list.contains(&format!("&{name}::KIND")), format!("`&{name}::KIND` in `ALL`")),
        Listing::Register => (families::registered(list).contains(&name), format!("`{name}` in `register!`")),
    };
    (!there).then_some(entry)
}

fn check_parts(tree: &Tree, parts: &[Part], folder: &str, findings: &mut Findings) {
    let root = tree.text(&format!("{folder}/mod.rs")).unwrap_or_default();
    for Part { forms, unless, why } in parts {
        let made_up_for = unless.is_some_and(|text| root.contains(text));
        let there = forms.iter().any(|form| tree.has_file(&format!("{folder}/{form}")));
        if !there && !made_up_for {
            findings.fault(&format!("{folder}/{}", forms[0]), 1, format!("is missing; write it: {why}"));
        }
    }
}

fn check_cases(tree: &Tree, folder: &str, findings: &mut Findings) {
    if !tree.below(folder).any(|path| path.ends_with(IN)) {
        let text = format!("has no case; write one as <name>{IN}, with valid and with invalid documents");
        findings.fault(folder, 1, text);
    }
    for (output, input) in CASES {
        let has_input = |case: &str| tree.has_file(&format!("{case}{input}"));
        for stale in tree.below(folder).filter(|path| path.strip_suffix(output).is_some_and(|case| !has_input(case))) {
            findings.fault(stale, 1, format!("has no {input} beside it; delete it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    const POLICY: &str = POLICIES.folder;
    const KIND: &str = KINDS.folder;

    fn findings(files: &[(String, &str)]) -> Vec<String> {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        testing::findings(check, &files)
    }

    #[test]
    fn complete_folder_has_no_findings() {
        let files = [
            (format!("{POLICY}/lib.rs"), "\nregister![mesh_foo];"),
            (format!("{POLICY}/from_to/mod.rs"), ""),
            (format!("{POLICY}/mesh_foo/README.md"), ""),
            (format!("{POLICY}/mesh_foo/mod.rs"), ""),
            (format!("{POLICY}/mesh_foo/spec/mod.rs"), ""),
            (format!("{POLICY}/mesh_foo/check.rs"), ""),
            (format!("{POLICY}/mesh_foo/cases/valid.in.yaml"), ""),
            (format!("{POLICY}/mesh_foo/cases/valid.out.yaml"), ""),
            (format!("{POLICY}/mesh_foo/cases/merged.mesh.yaml"), ""),
            (format!("{POLICY}/mesh_foo/cases/merged.xds.yaml"), ""),
        ];
        assert_eq!(findings(&files), [""; 0]);
    }

    #[test]
    fn missing_files_are_reported() {
        let files = [
            (format!("{POLICY}/lib.rs"), ""),
            (format!("{POLICY}/mesh_foo/mod.rs"), "fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}"),
            (format!("{POLICY}/mesh_foo/cases/old.out.yaml"), ""),
            (format!("{POLICY}/mesh_foo/cases/old.xds.yaml"), ""),
        ];
        assert_eq!(
            findings(&files),
            [
                format!("{POLICY}/lib.rs:1: has no `mesh_foo` in `register!`; add it to register mesh_foo"),
                format!("{POLICY}/mesh_foo/README.md:1: is missing; write it: it documents the kind"),
                format!(
                    "{POLICY}/mesh_foo/cases:1: has no case; write one as <name>.in.yaml, with valid and with invalid documents"
                ),
                format!("{POLICY}/mesh_foo/cases/old.out.yaml:1: has no .in.yaml beside it; delete it"),
                format!("{POLICY}/mesh_foo/cases/old.xds.yaml:1: has no .mesh.yaml beside it; delete it"),
                format!("{POLICY}/mesh_foo/check.rs:1: is missing; write it: it validates the spec"),
                format!("{POLICY}/mesh_foo/spec.rs:1: is missing; write it: it has the types of the spec"),
            ]
        );
    }

    #[test]
    fn a_kind_without_rules_needs_no_check() {
        let files = |body: &'static str| {
            [
                (format!("{KIND}/mod.rs"), "&zone::KIND"),
                (format!("{KIND}/zone/README.md"), ""),
                (format!("{KIND}/zone/mod.rs"), body),
                (format!("{KIND}/zone/spec.rs"), ""),
                (format!("{KIND}/zone/cases/all.in.yaml"), ""),
            ]
        };
        assert_eq!(findings(&files("fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}")), [""; 0]);
        assert_eq!(findings(&files("mod check;")).len(), 1);
    }
}
