//! New folders, written into a small copy of the tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{kind, policy};
use crate::families;
use crate::tidy::testing::{findings_in, package_at};
use crate::workspace::Workspace;

/// The real list: most of its entries are not in the small copy.
const LIST_OF_POLICIES: &str = include_str!("../../../crates/core/kodiak-policies/src/lib.rs");
const LIST_OF_KINDS: &str =
    "//! The kinds.\n\npub mod zone;\n\nuse crate::Kind;\n\npub const ALL: &[&Kind] = &[&zone::KIND];\n";
const POLICIES: &str = families::POLICIES.folder;
const KINDS: &str = families::KINDS.folder;

/// The lists, the format, and a minimal policy and kind.
fn tree() -> (TempDir, Workspace) {
    let root = tempfile::tempdir().unwrap();
    let workspace = Workspace { root: root.path().to_owned() };
    let write = |path: String, text: &str| {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("rustfmt.toml".to_owned(), include_str!("../../../rustfmt.toml"));
    write(format!("{POLICIES}/lib.rs"), LIST_OF_POLICIES);
    write(format!("{POLICIES}/from_to.rs"), "//! The frame.\n");
    write("crates/core/kodiak-model/src/lib.rs".to_owned(), "//! The model.\n\npub mod kinds;\n");
    write(format!("{KINDS}/mod.rs"), LIST_OF_KINDS);
    let exemplars = [
        (format!("{POLICIES}/mesh_timeout"), "\"mt\", PolicyFacts { order: 1000 }"),
        (format!("{KINDS}/zone"), "Kind::legacy().short(\"z\")"),
    ];
    for (folder, facts) in exemplars {
        write(format!("{folder}/README.md"), "# It\n");
        write(format!("{folder}/mod.rs"), &format!("//! It.\nmod check;\nmod spec;\n// {facts}\n"));
        write(format!("{folder}/spec.rs"), "//! Spec.\n");
        write(format!("{folder}/check.rs"), "//! Check.\n");
        write(format!("{folder}/cases/all.in.yaml"), "type: It\n");
    }
    (root, workspace)
}

fn read(workspace: &Workspace, path: &str) -> String {
    fs::read_to_string(workspace.root.join(path)).unwrap()
}

fn tidy(workspace: &Workspace) -> Vec<String> {
    let packages = ["crates/core/kodiak-policies", "crates/core/kodiak-model"].map(package_at);
    findings_in(&workspace.root, &packages)
}

fn new_policy(name: &str, short: Option<&str>) -> policy::Args {
    policy::Args { name: name.to_owned(), short: short.map(str::to_owned), about: "how much is allowed".to_owned() }
}

fn new_kind(name: &str) -> kind::Args {
    kind::Args { name: name.to_owned(), short: None, about: "a thing".to_owned() }
}

#[test]
fn new_policy_is_complete_registered_and_tidy() {
    let (_root, workspace) = tree();
    assert_eq!(tidy(&workspace), [""; 0]);

    let folder = policy::write(&workspace, &new_policy("MeshHTTPLimit", None)).unwrap();

    assert_eq!(folder, format!("{POLICIES}/mesh_http_limit"));
    assert_eq!(tidy(&workspace), [""; 0]);
    let list = read(&workspace, &format!("{POLICIES}/lib.rs"));
    assert!(list.contains("\n    mesh_health_check,\n    mesh_http_limit,\n    mesh_http_route,\n"), "{list}");
    let module = read(&workspace, &format!("{folder}/mod.rs"));
    assert!(module.starts_with("//! MeshHTTPLimit: how much is allowed.\n"), "{module}");
    assert!(module.contains("    \"meshhttplimits\",\n    \"mhl\",\n"), "{module}");
    assert!(module.contains("order: 1100 }"), "{module}");
    assert!(read(&workspace, &format!("{folder}/README.md")).contains("name: mesh-http-limit\n"));
}

#[test]
fn a_policy_is_its_folder_and_one_line() {
    let (_root, workspace) = tree();
    for name in ["MeshAardvark", "MeshFoo", "MeshZebra"] {
        let before = files(&workspace.root);
        let folder = policy::write(&workspace, &new_policy(name, None)).unwrap();

        fs::remove_dir_all(workspace.root.join(&folder)).unwrap();
        let list = workspace.root.join(POLICIES).join("lib.rs");
        let line = format!("    {},", folder.rsplit('/').next().unwrap());
        let text = fs::read_to_string(&list).unwrap();
        let rest: Vec<_> = text.lines().filter(|other| **other != line).collect();
        assert_eq!(rest.len() + 1, text.lines().count());
        fs::write(&list, rest.join("\n") + "\n").unwrap();

        assert_eq!(files(&workspace.root), before);
    }
}

/// Every file below a folder, with its text.
fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path, text);
        }
    }
    found
}

#[test]
fn new_kind_is_complete_registered_and_tidy() {
    let (_root, workspace) = tree();
    let folder = kind::write(&workspace, &new_kind("Cellar")).unwrap();
    assert_eq!(folder, format!("{KINDS}/cellar"));
    assert_eq!(tidy(&workspace), [""; 0]);
    let list = read(&workspace, &format!("{KINDS}/mod.rs"));
    assert!(list.contains("pub mod cellar;\npub mod zone;\n"), "{list}");
    assert!(list.contains("&[&cellar::KIND, &zone::KIND];"), "{list}");
    let module = read(&workspace, &format!("{folder}/mod.rs"));
    assert!(module.contains(r#"Kind::plugin("Cellar", "cellars", "c", Language::of::<Cellar>())"#), "{module}");
}

#[test]
fn all_placeholders_are_filled() {
    let (_root, workspace) = tree();
    policy::write(&workspace, &new_policy("MeshFoo", Some("foo"))).unwrap();
    kind::write(&workspace, &new_kind("Cellar")).unwrap();
    for folder in [format!("{POLICIES}/mesh_foo"), format!("{KINDS}/cellar")] {
        for (path, text) in files(&workspace.root.join(folder)) {
            assert!(!text.contains("{{") && !text.contains("}}"), "{}:\n{text}", path.display());
        }
    }
}

#[test]
fn rejects_existing_or_invalid_names_and_writes_nothing() {
    let (_root, workspace) = tree();
    let refused = |args: &policy::Args| policy::write(&workspace, args).unwrap_err().to_string();
    let exists = "MeshTimeout exists already: crates/core/kodiak-policies/src/mesh_timeout";
    assert_eq!(refused(&new_policy("MeshTimeout", None)), exists);
    assert_eq!(refused(&new_policy("mesh-foo", None)), "\"mesh-foo\" is not CamelCase; did you mean MeshFoo?");
    let taken = "the short name mt is taken by mesh_timeout; choose another with --short";
    assert_eq!(refused(&new_policy("MeshTunnel", None)), taken);
    assert!(refused(&new_policy("MeshFoo", Some("M-F"))).contains("must be lower case letters and digits"));
    let error = kind::write(&workspace, &new_kind("Zone")).unwrap_err();
    assert_eq!(error.to_string(), "Zone exists already: crates/core/kodiak-model/src/kinds/zone");
    assert_eq!(read(&workspace, &format!("{POLICIES}/lib.rs")), LIST_OF_POLICIES);
    assert_eq!(tidy(&workspace), [""; 0]);
}
