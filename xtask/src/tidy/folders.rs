//! Folders of policies and kinds are complete, all of the same shape, and registered.

use super::Repository;
use super::finding::Findings;
use super::tree::Tree;
use crate::families::{self, Family, KINDS, Listing, POLICIES};

/// What the folders of a family must have.
struct Shape {
    family: &'static Family,
    /// How their names start; other folders beside them are something else.
    prefix: &'static str,
    parts: &'static [Part],
}

/// Something that a folder must have, in one of several forms.
struct Part {
    forms: &'static [&'static str],
    /// Text in `mod.rs` that makes up for it.
    unless: Option<&'static str>,
    why: &'static str,
}

const README: Part = Part { forms: &["README.md"], unless: None, why: "users read it" };
const MOD: Part = Part { forms: &["mod.rs"], unless: None, why: "it holds the `KIND`" };
const SPEC: Part = Part { forms: &["spec.rs", "spec/mod.rs"], unless: None, why: "it is what users write" };
const CHECK: Part = Part { forms: &["check.rs", "check/mod.rs"], unless: None, why: "it finds what is wrong" };
/// Some kinds have no rules beyond their schema: their `check` has an empty body.
const CHECK_IF_RULES: Part = Part { unless: Some("&mut Problems) {}"), ..CHECK };

const SHAPES: &[Shape] = &[
    Shape { family: &POLICIES, prefix: "mesh_", parts: &[README, MOD, SPEC, CHECK] },
    Shape { family: &KINDS, prefix: "", parts: &[README, MOD, SPEC, CHECK_IF_RULES] },
];

const IN: &str = ".in.yaml";
const OUT: &str = ".out.yaml";
/// What comes out of a case, and what goes in: documents and what is stored, a mesh and what a proxy gets.
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
                findings.fault(family.list, 1, format!("has no {missing}; add it, or {name} is no kind"));
            }
        }
    }
}

/// What the list must have for the folder, if it is not there.
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
    fn a_complete_folder_is_silent() {
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
    fn what_is_missing_is_named() {
        let files = [
            (format!("{POLICY}/lib.rs"), ""),
            (format!("{POLICY}/mesh_foo/mod.rs"), "fn check(&self, _: &CheckCtx<'_>, _: &mut Problems) {}"),
            (format!("{POLICY}/mesh_foo/cases/old.out.yaml"), ""),
            (format!("{POLICY}/mesh_foo/cases/old.xds.yaml"), ""),
        ];
        assert_eq!(
            findings(&files),
            [
                format!("{POLICY}/lib.rs:1: has no `mesh_foo` in `register!`; add it, or mesh_foo is no kind"),
                format!("{POLICY}/mesh_foo/README.md:1: is missing; write it: users read it"),
                format!(
                    "{POLICY}/mesh_foo/cases:1: has no case; write one as <name>.in.yaml, with valid and with invalid documents"
                ),
                format!("{POLICY}/mesh_foo/cases/old.out.yaml:1: has no .in.yaml beside it; delete it"),
                format!("{POLICY}/mesh_foo/cases/old.xds.yaml:1: has no .mesh.yaml beside it; delete it"),
                format!("{POLICY}/mesh_foo/check.rs:1: is missing; write it: it finds what is wrong"),
                format!("{POLICY}/mesh_foo/spec.rs:1: is missing; write it: it is what users write"),
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
