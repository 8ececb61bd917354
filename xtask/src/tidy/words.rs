//! Words that must not stay: leftovers of work, and talk about anything but the project.

use super::Repository;
use super::finding::Findings;
use super::tree::File;

/// A text that must not be in some files.
struct Banned {
    text: &'static str,
    is_in: fn(line: &str, text: &str) -> bool,
    applies_to: fn(&File<'_>) -> bool,
    instead: &'static str,
}

const BANNED: &[Banned] = &[
    Banned { text: "dbg!(", is_in: as_text, applies_to: rust, instead: "delete it, or log with `tracing`" },
    Banned { text: "println!(", is_in: as_text, applies_to: library, instead: LOG },
    Banned { text: "print!(", is_in: as_text, applies_to: library, instead: LOG },
    Banned { text: "#[ignore", is_in: as_text, applies_to: rust, instead: "mend the test, or delete it" },
    Banned { text: "NOT TESTED", is_in: as_text, applies_to: outside_the_testkit, instead: SKIP },
    Banned { text: "todo!(", is_in: as_text, applies_to: rust, instead: "write it, or leave the function out" },
    Banned { text: "TODO", is_in: as_word, applies_to: everything, instead: DO },
    Banned { text: "FIXME", is_in: as_word, applies_to: everything, instead: DO },
    Banned { text: "this session", is_in: in_any_case, applies_to: everything, instead: SPEAK },
    Banned { text: "language model", is_in: in_any_case, applies_to: everything, instead: SPEAK },
    Banned { text: "ai assistant", is_in: in_any_case, applies_to: everything, instead: SPEAK },
    Banned { text: "../shared", is_in: as_text, applies_to: not_about_work, instead: "a clone has no such folder" },
];

const LOG: &str = "log with `tracing`; only commands print";
const SKIP: &str = "skip a test with `kodiak_testkit::skip`, which fails in CI";
const DO: &str = "do it now, or file an issue";
const SPEAK: &str = "the project speaks of itself alone; say what it does and why";

/// This table names what it forbids.
const EXCEPTION: &str = "xtask/src/tidy/words.rs";

/// Where people are told how to work on the project, and the commands that do so.
const ABOUT_WORK: &[&str] = &["CONTRIBUTING.md", "xtask/", ".ci/"];

/// What others link: their terminal is not ours to write on.
const LIBRARIES: &[&str] = &["crates/core/", "crates/edge/", "crates/bin/kodiak-cp/", "crates/bin/kodiak-dp/"];
/// The parts of a library that only developers run.
const NOT_LINKED: &[&str] = &["/tests/", "/tests.rs", "/benches/", "/examples/", "/build.rs"];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.files().filter(|file| file.path != EXCEPTION) {
        let banned: Vec<_> = BANNED.iter().filter(|banned| (banned.applies_to)(&file)).collect();
        for (number, line) in file.lines() {
            for found in banned.iter().filter(|banned| (banned.is_in)(line, banned.text)) {
                findings.fault(file.path, number, format!("has `{}`; {}", found.text, found.instead));
            }
        }
    }
}

fn everything(_: &File<'_>) -> bool {
    true
}

fn rust(file: &File<'_>) -> bool {
    file.extension() == "rs"
}

fn outside_the_testkit(file: &File<'_>) -> bool {
    rust(file) && file.path != "crates/dev/kodiak-testkit/src/skip.rs"
}

fn library(file: &File<'_>) -> bool {
    let linked = LIBRARIES.iter().any(|start| file.path.starts_with(start))
        && !NOT_LINKED.iter().any(|part| file.path.contains(part));
    rust(file) && linked
}

fn not_about_work(file: &File<'_>) -> bool {
    !ABOUT_WORK.iter().any(|start| file.path.starts_with(start))
}

fn as_text(line: &str, text: &str) -> bool {
    line.contains(text)
}

fn in_any_case(line: &str, text: &str) -> bool {
    line.to_lowercase().contains(text)
}

/// With no letter, digit or `_` on either side.
fn as_word(line: &str, text: &str) -> bool {
    let continues = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(text).any(|(start, found)| {
        let (before, after) = (line[..start].chars().next_back(), line[start + found.len()..].chars().next());
        !before.is_some_and(continues) && !after.is_some_and(continues)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing;

    #[test]
    fn leftovers_are_found_in_code() {
        let files = [
            ("crates/core/a/src/lib.rs", "dbg!(x);\neprintln!(\"\");\n#[ignore = \"slow\"]\n// TODO later\n"),
            ("crates/core/a/src/tests.rs", "println!(\"shown when a test fails\");\n"),
            ("crates/bin/kodiak/src/main.rs", "println!(\"for users\");\n"),
            ("README.md", "FIXME\nTODOS and METHOD_TODO are other words\n"),
        ];
        assert_eq!(
            testing::findings(check, &files),
            [
                "README.md:1: has `FIXME`; do it now, or file an issue",
                "crates/core/a/src/lib.rs:1: has `dbg!(`; delete it, or log with `tracing`",
                "crates/core/a/src/lib.rs:2: has `println!(`; log with `tracing`; only commands print",
                "crates/core/a/src/lib.rs:3: has `#[ignore`; mend the test, or delete it",
                "crates/core/a/src/lib.rs:4: has `TODO`; do it now, or file an issue",
            ]
        );
    }

    #[test]
    fn the_project_speaks_of_itself() {
        let files = [
            ("CONTRIBUTING.md", "cargo xtask conformance ../shared/goldens\n"),
            ("docs/a.md", "A Language Model wrote\nsee ../shared/x\n"),
            (EXCEPTION, "TODO\n"),
        ];
        let found = testing::findings(check, &files);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("docs/a.md:1: has `language model`;"));
        assert!(found[1].starts_with("docs/a.md:2: has `../shared`;"));
    }
}
