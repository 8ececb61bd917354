//! Every Rust file is compiled: a file without a `mod` line is dead code.

use std::collections::BTreeSet;

use super::Repository;
use super::finding::Findings;
use super::tree::Tree;
use crate::families;

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    let Repository { tree, packages, fuzz, .. } = repository;
    let roots = packages.iter().chain(fuzz).flat_map(|package| &package.roots);
    let reached = reachable(tree, roots.map(|root| (root.clone(), parent(root).to_owned())).collect());
    let lost: Vec<_> = tree.with_extension("rs").filter(|file| !reached.contains(file.path)).collect();
    // A file that is missing only because of its parent is reported with it.
    let behind_others = reachable(
        tree,
        lost.iter().flat_map(|file| modules(tree, file.path, &own_folder(file.path), file.text)).collect(),
    );
    for file in lost.iter().filter(|file| !behind_others.contains(file.path)) {
        findings.fault(file.path, 1, "is never compiled: it has no `mod` line; add one, or delete the file");
    }
}

/// The files that are reachable by `mod` lines, from files with the folders of their modules.
fn reachable(tree: &Tree, mut waiting: Vec<(String, String)>) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    while let Some((path, folder)) = waiting.pop() {
        let Some(text) = tree.text(&path) else { continue };
        if reached.insert(path.clone()) {
            waiting.extend(modules(tree, &path, &folder, text));
        }
    }
    reached
}

/// The files of the modules that `text` declares, each with the folder of its own modules.
///
/// Not a parser: a module inside an inline one is searched in the folders of all inline ones. At worst this finds a
/// file that the compiler does not.
fn modules(tree: &Tree, path: &str, folder: &str, text: &str) -> Vec<(String, String)> {
    let inline = text.lines().filter_map(|line| declared(line)?.strip_suffix('{'));
    let folders: Vec<_> =
        std::iter::once(folder.to_owned()).chain(inline.map(|name| join(folder, name.trim_end()))).collect();
    let mut found = Vec::new();
    let mut other_path = None;
    for line in text.lines() {
        if let Some(given) = quoted_after(line, "#[path = ").or_else(|| quoted_after(line, "include!(")) {
            other_path = Some(join(parent(path), given));
            found.extend(other_path.clone().map(|path| (path.clone(), parent(&path).to_owned())));
        }
        let Some(name) = declared(line).and_then(|rest| rest.strip_suffix(';')) else { continue };
        if other_path.take().is_some() {
            continue;
        }
        found.extend(folders.iter().flat_map(|folder| module(folder, name)));
    }
    found.extend(families::registered(text).into_iter().flat_map(|name| module(folder, name)));
    found.retain(|(path, _)| tree.has_file(path));
    found
}

/// The two possible paths of a module, each with the folder of its own modules.
fn module(folder: &str, name: &str) -> [(String, String); 2] {
    let own = join(folder, name);
    [(format!("{own}.rs"), own.clone()), (format!("{own}/mod.rs"), own)]
}

/// The folder of a file's modules, if it is not a crate root.
fn own_folder(path: &str) -> String {
    path.strip_suffix("/mod.rs").or_else(|| path.strip_suffix(".rs")).unwrap_or(path).to_owned()
}

/// `name;` or `name {` of a module declaration.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim();
    let rest = match line.strip_prefix("pub") {
        Some(visible) if visible.starts_with('(') => visible.split_once(')')?.1.trim_start(),
        Some(visible) => visible.trim_start(),
        None => line,
    };
    rest.strip_prefix("mod ")
}

/// The quoted text after `before` in a line of code.
fn quoted_after<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    let code = line.trim_start();
    if code.starts_with("//") {
        return None;
    }
    let (_, rest) = code.split_once(before)?;
    rest.strip_prefix('"')?.split('"').next()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The path from a folder, with `.` and `..` resolved.
fn join(folder: &str, path: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "." => (),
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    fn orphans(files: &[(&str, &str)]) -> Vec<String> {
        let packages = vec![testing::package("a", &[])];
        let findings = testing::check(check, &Repository { packages, ..testing::repository(files) });
        findings.iter().map(|finding| finding.split(':').next().unwrap().to_owned()).collect()
    }

    #[test]
    fn modules_are_followed_in_both_shapes() {
        let files = [
            ("a/src/lib.rs", "mod one;\npub(crate) mod two;\n#[cfg(test)]\nmod tests;\n"),
            ("a/src/one.rs", "pub mod inner;\n"),
            ("a/src/one/inner.rs", ""),
            ("a/src/two/mod.rs", "    mod inner;\n"),
            ("a/src/two/inner.rs", ""),
            ("a/src/tests.rs", "mod behaviour { mod deep; }\nmod other {\n    mod deep;\n}\n"),
            ("a/src/tests/other/deep.rs", ""),
        ];
        assert!(orphans(&files).is_empty());
    }

    #[test]
    fn modules_of_the_macro_are_followed() {
        let files = [
            ("a/src/lib.rs", "\nregister![\n    mesh_a,\n];\n"),
            ("a/src/mesh_a/mod.rs", "mod spec;\n"),
            ("a/src/mesh_a/spec.rs", ""),
            ("a/src/mesh_b/mod.rs", ""),
        ];
        assert_eq!(orphans(&files), ["a/src/mesh_b/mod.rs"]);
    }

    #[test]
    fn file_without_a_mod_line_is_an_orphan() {
        let files = [
            ("a/src/lib.rs", "// mod commented;\nmod one;\n"),
            ("a/src/one.rs", ""),
            ("a/src/commented.rs", ""),
            ("a/src/one/lost.rs", "mod below;\n"),
            ("a/src/one/lost/below.rs", ""),
            ("a/build.rs", ""),
        ];
        // `below.rs` is reported with `lost.rs`.
        assert_eq!(orphans(&files), ["a/build.rs", "a/src/commented.rs", "a/src/one/lost.rs"]);
    }

    #[test]
    fn paths_and_includes_are_followed() {
        let files = [
            ("a/src/lib.rs", "#[path = \"../common/x.rs\"]\nmod x;\ninclude!(\"gen/table.rs\");\n"),
            ("a/common/x.rs", "mod y;\n"),
            ("a/common/y.rs", ""),
            ("a/src/x.rs", ""),
            ("a/src/gen/table.rs", ""),
        ];
        assert_eq!(orphans(&files), ["a/src/x.rs"]);
    }
}
