//! Every YAML block in the README of a kind, and every example, is a valid document without unknown fields.

use std::{fs, path::Path};

use kodiak_kinds::{draft, kinds};
use kodiak_model::{Place, check, yaml};

use crate::folders;

#[test]
fn blocks_in_readmes_are_valid() {
    for folder in folders::of_kinds() {
        let readme = folder.join("README.md");
        let text = fs::read_to_string(&readme).unwrap_or_default();
        for block in yaml_blocks(&text) {
            assert_valid(&readme, &block);
        }
    }
}

#[test]
fn examples_are_valid() {
    let folder = Path::new("../../../examples");
    let examples = folders::files(folder, ".yaml");
    assert!(!examples.is_empty());
    // One has mistakes on purpose, the other legacy kinds to convert.
    let apart = ["broken.yaml", "kuma-export.yaml"];
    for example in examples.iter().filter(|path| !apart.iter().any(|name| path.ends_with(name))) {
        assert_valid(example, &fs::read_to_string(example).unwrap());
    }
}

#[track_caller]
fn assert_valid(file: &Path, text: &str) {
    let file = file.display();
    for document in yaml::parse(text).unwrap_or_else(|error| panic!("{file}: {error}\n{text}")) {
        let draft = draft(document.value).unwrap_or_else(|problems| panic!("{file}: {problems}"));
        let kind = kinds().by_name(&draft.kind).unwrap_or_else(|| panic!("{file}: {}", draft.kind));
        let place = Place::Zone { name: "east".to_owned() };
        let checked = check(kind, draft, &place).unwrap_or_else(|problems| panic!("{file}: {problems}\n{text}"));
        let unknown: Vec<_> = checked.warnings.iter().filter(|text| text.starts_with("unknown")).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?}");
    }
}

fn yaml_blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in markdown.lines() {
        match (&mut block, line.trim_end()) {
            (None, "```yaml") => block = Some(String::new()),
            (Some(_), "```") => blocks.extend(block.take()),
            (Some(text), line) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => (),
        }
    }
    blocks
}
