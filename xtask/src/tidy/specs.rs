//! Stored specs are decoded by `kodiak-world`, once per revision, and new documents by the check of `kodiak-model`. Two
//! readers that decode for themselves disagree about what they cannot read.

use super::Repository;
use super::finding::Findings;
use super::tree::File;

/// Files, or folders with a trailing `/`, that read specs, and why.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/core/kodiak-model/src/", "the check of new documents"),
    ("crates/core/kodiak-world/src/", "stored records"),
    ("crates/core/kodiak-rules/src/fixtures.rs", "policies of tests"),
    ("crates/core/kodiak-rules/src/select_tests.rs", "policies of tests"),
    ("crates/edge/kodiak-catalog/src/references.rs", "data sources, found in JSON by the schema of the kind"),
    ("crates/edge/kodiak-catalog/src/inline_secret.rs", "data sources, found in JSON by the schema of the kind"),
    ("crates/edge/kodiak-api/src/handlers/inspect/migration.rs", "JSON to JSON: policies with other references"),
    ("crates/edge/kodiak-api/src/kubernetes.rs", "JSON to JSON: another form of a resource"),
    ("crates/bin/kodiak-cli/src/commands/apply/compare.rs", "JSON to JSON: fields that a document changes"),
    ("crates/bin/kodiak-bench/src/", "policies of benchmarks"),
];
/// Shipped code.
const GROUPS: &[&str] = &["crates/core/", "crates/edge/", "crates/bin/"];
/// Parts of it that only developers run.
const NOT_SHIPPED: &[&str] = &["/tests/", "/tests.rs", "/benches/", "/examples/"];
const DECODES: &[&str] = &["language::decode", "language.decode", "Body::read("];

pub(super) fn check(repository: &Repository, findings: &mut Findings) {
    for file in repository.tree.with_extension("rs").filter(|file| is_shipped(file) && !is_allowed(file.path)) {
        // Unit tests are at the end of a file.
        let lines = file.lines().take_while(|(_, line)| !line.starts_with("#[cfg(test)]") || line.ends_with(';'));
        for (number, _) in lines.filter(|(_, line)| decodes_a_spec(line)) {
            let advice = "ask the `World` of the snapshot, or name the reason in `ALLOWED` of xtask/src/tidy/specs.rs";
            findings.fault(file.path, number, format!("decodes a spec; {advice}"));
        }
    }
}

fn is_shipped(file: &File<'_>) -> bool {
    GROUPS.iter().any(|group| file.path.starts_with(group)) && !NOT_SHIPPED.iter().any(|part| file.path.contains(part))
}

fn is_allowed(path: &str) -> bool {
    ALLOWED.iter().any(|(allowed, _)| if allowed.ends_with('/') { path.starts_with(allowed) } else { path == *allowed })
}

fn decodes_a_spec(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    let from_text = |(at, _): (usize, &str)| {
        let argument = code[at..].split_once('(').map_or("", |(_, rest)| rest.split(')').next().unwrap_or_default());
        argument.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "spec")
    };
    DECODES.iter().any(|decode| code.contains(decode)) || code.match_indices("serde_json::from_").any(from_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::testing::findings;

    const PATH: &str = "crates/edge/kodiak-new/src/lib.rs";

    #[test]
    fn rejects_a_spec_decoded_elsewhere() {
        for line in [
            "let mesh: Mesh = serde_json::from_str(&record.spec)?;",
            "let mesh = serde_json::from_str::<Mesh>(checked.spec()).ok();",
            "let mesh: Mesh = language::decode(&text)?;",
            "let spec = (kind.language.decode)(text)?;",
            "let body = Body::read(&facts, &value)?;",
        ] {
            let found = findings(check, &[(PATH, &format!("//! New.\n{line}\n"))]);
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with("crates/edge/kodiak-new/src/lib.rs:2: decodes a spec"), "{found:?}");
        }
    }

    #[test]
    fn allows_other_json_tests_and_listed_files() {
        let decodes = "//! Old.\nlet mesh: Mesh = serde_json::from_str(&record.spec)?;\n";
        let other =
            "//! Old.\nlet body: Body = serde_json::from_slice(&bytes)?; // of a spec\nlet specs = inspect(&x);\n";
        let unit = "//! Old.\n#[cfg(test)]\nmod tests { fn a() { serde_json::from_str(&record.spec); } }\n";
        let files = [
            (PATH, other),
            ("crates/edge/kodiak-new/src/unit.rs", unit),
            ("crates/edge/kodiak-new/tests/it/main.rs", decodes),
            ("crates/core/kodiak-world/src/decode.rs", decodes),
            ("xtask/src/new.rs", decodes),
        ];
        assert!(findings(check, &files).is_empty());
    }
}
