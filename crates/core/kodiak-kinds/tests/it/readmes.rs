//! Every YAML block in the README of a kind is a valid document without warnings.

use std::fs;

use kodiak_kinds::{draft, kinds};
use kodiak_model::{Place, check, yaml};

use crate::folders;

#[test]
fn examples_are_valid() {
    for folder in folders::of_kinds() {
        let readme = folder.join("README.md");
        let text = fs::read_to_string(&readme).unwrap_or_default();
        for block in yaml_blocks(&text) {
            let documents =
                yaml::parse(&block).unwrap_or_else(|error| panic!("{}: {error}\n{block}", readme.display()));
            for document in documents {
                let draft = draft(document.value).unwrap_or_else(|problems| panic!("{}: {problems}", readme.display()));
                let kind =
                    kinds().by_name(&draft.kind).unwrap_or_else(|| panic!("{}: {}", readme.display(), draft.kind));
                let place = Place::Zone { name: "east".to_owned() };
                let checked = check(kind, draft, &place);
                let checked = checked.unwrap_or_else(|problems| panic!("{}: {problems}\n{block}", readme.display()));
                let unknown: Vec<_> = checked.warnings.iter().filter(|text| text.starts_with("unknown")).collect();
                assert!(unknown.is_empty(), "{}: {unknown:?}", readme.display());
            }
        }
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
