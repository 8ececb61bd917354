//! `cases/<name>.in.yaml` of each kind: the stored form or the problems, in `<name>.out.yaml`.
//!
//! `UPDATE=1 cargo test -p kodiak-kinds` rewrites the outputs and removes those without an input. Review the result.

use std::{env, fs, path::Path};

use kodiak_kinds::{draft, kinds};
use kodiak_model::{Place, Problems, check, yaml};
use serde_json::{Map, Value, json};

use crate::folders;

#[test]
fn cases_match_their_outputs() {
    let update = env::var_os("UPDATE").is_some();
    let mut wrong = Vec::new();
    for folder in folders::of_kinds() {
        let cases = folder.join("cases");
        for input in folders::files(&cases, ".in.yaml") {
            let output = input.to_string_lossy().replace(".in.yaml", ".out.yaml");
            let text = fs::read_to_string(&input).unwrap();
            let found = outcome(&text);
            if update {
                fs::write(&output, &found).unwrap();
            } else if fs::read_to_string(&output).unwrap_or_default() != found {
                wrong.push(format!("{output} should read:\n{found}"));
            }
        }
        for output in folders::files(&cases, ".out.yaml") {
            let input = output.to_string_lossy().replace(".out.yaml", ".in.yaml");
            if !Path::new(&input).exists() {
                if update {
                    fs::remove_file(&output).unwrap();
                } else {
                    wrong.push(format!("{} has no input", output.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites them", wrong.join("\n"));
}

/// One item for each document of the input.
fn outcome(text: &str) -> String {
    let items: Vec<Value> = match yaml::parse(text) {
        Ok(documents) => documents.into_iter().map(|document| outcome_of(document.value)).collect(),
        Err(error) => vec![json!({ "unreadable": error.to_string() })],
    };
    yaml::to_string(&Value::Array(items))
}

fn outcome_of(document: Value) -> Value {
    let draft = match draft(document) {
        Ok(draft) => draft,
        Err(problems) => return problem_list(&problems),
    };
    let Some(kind) = kinds().by_name(&draft.kind) else { return json!({ "unknown kind": draft.kind }) };
    let place = Place::Zone { name: "east".to_owned() };
    match check(kind, draft, &place) {
        Err(problems) => problem_list(&problems),
        Ok(checked) => {
            let mut item = Map::new();
            if !checked.warnings.is_empty() {
                item.insert("warnings".to_owned(), json!(checked.warnings));
            }
            if let Some((_, value)) = checked.labels.iter().find(|(key, _)| *key == "kuma.io/proxy-type") {
                item.insert("proxyType".to_owned(), json!(value));
            }
            item.insert("stored".to_owned(), serde_json::from_str(checked.spec()).unwrap());
            Value::Object(item)
        }
    }
}

fn problem_list(problems: &Problems) -> Value {
    let lines: Vec<_> = problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect();
    json!({ "problems": lines })
}
