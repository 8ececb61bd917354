//! Links in Markdown lead somewhere.
//!
//! Only links to files of the repository are looked at: whether the rest of the world is up is not for us to test.

use super::Repository;
use super::finding::Findings;
use super::tree::Tree;

/// Pages that `cargo xtask docs` generates; it checks the links to them.
const GENERATED: &str = "docs/reference/";

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("md") {
        let mut in_code = false;
        for (number, line) in file.lines() {
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            }
            if in_code {
                continue;
            }
            for link in links(&without_code(line)).into_iter().filter(|link| is_relative(link)) {
                match resolve(file.path, &link) {
                    None => findings.fault(
                        file.path,
                        number,
                        format!("`{link}` leads out of the repository; link inside it"),
                    ),
                    Some(target) if target.starts_with(GENERATED) || exists(&repository.tree, &target) => (),
                    Some(target) => {
                        let text = format!("`{link}` leads nowhere: there is no {target}; fix or remove the link");
                        findings.fault(file.path, number, text);
                    }
                }
            }
        }
    }
}

/// The line with everything between backticks left out.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join(" ")
}

/// The targets of `[text](target)`, `![image](target)` and `[name]: target`.
fn links(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let defined = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    // What follows a blank is a title.
    let targets = inline.chain(defined).filter_map(|target| target.trim().split(' ').next());
    targets.map(|target| target.trim_matches(['<', '>']).to_owned()).collect()
}

fn is_relative(link: &str) -> bool {
    let has_scheme = link.split('/').next().is_some_and(|start| start.contains(':'));
    !link.is_empty() && !link.starts_with('#') && !has_scheme
}

/// The path that a link in `file` means. `None` when it leads out of the repository.
fn resolve(file: &str, link: &str) -> Option<String> {
    let path = link.split(['#', '?']).next().unwrap_or_default();
    let mut parts: Vec<&str> = match path.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => file.rsplit_once('/').map(|(folder, _)| folder.split('/').collect()).unwrap_or_default(),
    };
    for part in path.split('/') {
        match part {
            "" | "." => (),
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn exists(tree: &Tree, path: &str) -> bool {
    tree.has_file(path) || tree.has_folder(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn links_lead_to_files_and_folders_of_the_repository() {
        let text = "\
See [the guide](guide.md#start), [code](../crates/a) and ![a picture](<img/a.png> \"title\").
[ref]: ../README.md
[web](https://example.org/x.md) [mail](mailto:a@example.org) [here](#there) [root](/README.md)
`[not](a-link.md)`
```text
[not](a-link.md)
```
";
        let files = [
            ("README.md", ""),
            ("crates/a/src/lib.rs", ""),
            ("docs/guide.md", ""),
            ("docs/img/a.png", ""),
            ("docs/index.md", text),
        ];
        assert_eq!(testing::findings(check, &files), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_or_out_are_found() {
        let files = [("docs/a.md", "[x](gone.md)\nfine\n[y](../../elsewhere/b.md) [z](../docs)\n")];
        assert_eq!(
            testing::findings(check, &files),
            [
                "docs/a.md:1: `gone.md` leads nowhere: there is no docs/gone.md; fix or remove the link",
                "docs/a.md:3: `../../elsewhere/b.md` leads out of the repository; link inside it",
            ]
        );
    }
}
