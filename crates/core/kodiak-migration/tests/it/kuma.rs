//! `src/kuma/cases/<name>.in.yaml` is an export, `<name>.out.yaml` what becomes of it.
//!
//! `UPDATE=1 cargo test -p kodiak-migration --test it` rewrites the outputs. Review the result.

use std::{env, fs, path::Path};

use kodiak_migration::kuma::{ExportedResource, ImportedResource, KumaConversion, NotImported, import};
use kodiak_model::yaml;
use serde_json::{Map, Value, json};

#[test]
fn exports_become_the_recorded_documents_and_reasons() {
    let update = env::var_os("UPDATE").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/kuma/cases");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let input = entry.unwrap().path();
        let Some(stem) = input.to_string_lossy().strip_suffix(".in.yaml").map(str::to_owned) else { continue };
        count += 1;
        let output = format!("{stem}.out.yaml");
        let found = outcome(&fs::read_to_string(&input).unwrap());
        if update {
            fs::write(&output, &found).unwrap();
        } else if fs::read_to_string(&output).unwrap_or_default() != found {
            wrong.push(format!("{output} should read:\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nUPDATE=1 rewrites them", wrong.join("\n"));
    assert!(count > 10, "only {count} cases were found");
}

fn outcome(text: &str) -> String {
    let documents = yaml::parse(text).unwrap().into_iter().map(|document| document.value).collect();
    let import = import(documents);
    let as_it_is = import.documents.iter().filter(|one| one.as_it_is).map(|one| show(&one.resource));
    let written = import.documents.iter().filter(|one| !one.as_it_is || one.address.is_some());
    let sections = [
        ("as it is", as_it_is.map(Value::from).collect::<Vec<_>>()),
        ("converted", import.conversions.iter().map(conversion).collect()),
        ("documents", written.map(document).collect()),
        ("left out", import.left_out.iter().map(left_out).collect()),
        ("not needed", import.not_needed.iter().map(left_out).collect()),
    ];
    let filled = sections.into_iter().filter(|(_, items)| !items.is_empty());
    yaml::to_string(&filled.map(|(name, items)| (name.to_owned(), Value::Array(items))).collect::<Map<_, _>>().into())
}

fn show(ExportedResource { kind, mesh, name }: &ExportedResource) -> String {
    [kind, mesh, name].into_iter().filter(|text| !text.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn conversion(KumaConversion { from, to, notes }: &KumaConversion) -> Value {
    let shown = |all: &[ExportedResource]| all.iter().map(show).collect::<Vec<_>>();
    json!({ "from": shown(from), "to": shown(to), "notes": notes })
}

fn document(one: &ImportedResource) -> Value {
    let spec: Value = serde_json::from_str(one.checked.spec()).unwrap();
    match one.address {
        Some(address) => json!({ "resource": show(&one.resource), "address": address }),
        None => json!({ "resource": show(&one.resource), "spec": spec }),
    }
}

fn left_out(NotImported { resource, reason, advice }: &NotImported) -> Value {
    json!({ "resource": show(resource), "reason": reason, "advice": advice })
}
