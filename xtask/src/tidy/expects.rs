//! Writes that ship state the record that they were decided on: `Expect::Any` replaces whatever is there, also what somebody
//! else wrote meanwhile. See `docs/adr/023-a-write-is-decided-on-what-it-replaces.md`.

use super::Repository;
use super::finding::Findings;
use super::tree::File;

/// The store itself, which decides about it.
const ALLOWED: &[&str] = &["crates/edge/kodiak-store/src/decide.rs"];
/// Shipped code.
const GROUPS: &[&str] = &["crates/core/", "crates/edge/", "crates/bin/"];
/// Parts of it that only developers run.
const NOT_SHIPPED: &[&str] = &["/tests/", "/tests.rs", "/races.rs", "/benches/", "/examples/"];
const UNCONDITIONAL: &[&str] = &["Expect::Any", "Expect::*", "Expect::{"];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("rs").filter(is_shipped) {
        // Unit tests are at the end of a file.
        let lines = file.lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]") || line.ends_with(';'));
        for (number, _) in lines.filter(|(_, line)| is_unconditional(line)) {
            let advice =
                "use `Snapshot::expect` of the snapshot that it was decided on, and decide again on a conflict";
            findings.fault(file.path, number, format!("writes whatever is there now; {advice}"));
        }
    }
}

fn is_shipped(file: &File<'_>) -> bool {
    GROUPS.iter().any(|group| file.path.starts_with(group))
        && !NOT_SHIPPED.iter().any(|part| file.path.contains(part))
        && !ALLOWED.contains(&file.path)
}

fn is_unconditional(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    UNCONDITIONAL.iter().any(|text| code.contains(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    const PATH: &str = "crates/edge/kodiak-new/src/lib.rs";

    #[test]
    fn rejects_a_write_that_replaces_anything() {
        for line in [
            "let write = Write::Delete { key, expect: Expect::Any };",
            "expect: version.map_or(Expect::Any, Expect::Version),",
            "use kodiak_store::Expect::*;",
            "use kodiak_store::Expect::{Any, Version};",
        ] {
            let found = findings(check, &[(PATH, &format!("//! New.\n{line}\n"))]);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with("crates/edge/kodiak-new/src/lib.rs:2: writes whatever is there"), "{found:?}");
        }
    }

    #[test]
    fn allows_other_expectations_and_tests() {
        let any = "//! Old.\nlet write = Write::Delete { key, expect: Expect::Any };\n";
        let other = "//! Old.\nlet expect = snapshot.expect(&key); // not Expect::Any\nlet none = Expect::Absent;\n";
        let unit = "//! Old.\n#[cfg(test)]\nmod tests { fn a() { put(Expect::Any); } }\n";
        let files = [
            (PATH, other),
            ("crates/edge/kodiak-new/src/unit.rs", unit),
            ("crates/edge/kodiak-new/tests/it/main.rs", any),
            ("crates/dev/kodiak-new/src/lib.rs", any),
            ("crates/edge/kodiak-store/src/decide.rs", any),
        ];
        assert!(findings(check, &files).is_empty());
    }
}
