//! `api`: loads resources into the store, sends the requests in the first comment lines, compares JSON responses.

use std::path::Path;

use anyhow::Context as _;
use axum::http::Method;
use kodiak_kinds::{kinds, legacy_kinds};
use kodiak_model::{Place, policy};
use kodiak_store::{Backend, Store, StoreConfig};
use serde_json::Value;

use crate::{
    case::{Case, Outcome, compare},
    deviations,
    suites::feed::{self, ADDRESS},
};

pub(crate) fn run(case: &Case) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_async(case))
}

async fn run_async(case: &Case) -> anyhow::Result<Outcome> {
    let text = case.text()?;
    let actions = actions(&text)?;
    let place = if in_folder(case, "global") { Place::Global } else { Place::Zone { name: "default".to_owned() } };
    let store = Store::open(StoreConfig::new(Backend::Memory)).await?;
    if let Some(reason) = feed::load(&store, &text).await? {
        return Ok(Outcome::Skipped(reason));
    }
    let policies = policies(&store);
    let zone = kodiak_engine::EngineSettings { zone: "default".into(), ..kodiak_engine::EngineSettings::default() };
    let router = feed::router(store, place, zone);
    for (n, action) in actions.iter().enumerate() {
        let suffix = if actions.len() > 1 { format!("_{n:02}") } else { String::new() };
        let body = case.beside(&format!("{suffix}.request.json")).unwrap_or_default();
        let (status, answer) = feed::send(&router, action.method.clone(), &action.path, body).await?;
        let is_missing = answer.starts_with("404: Page Not Found") || answer.starts_with("405: Method Not Allowed");
        if is_missing || is_legacy(&action.path) {
            return Ok(Outcome::Skipped(format!("{} {} is unsupported", action.method, action.path)));
        }
        if status != action.status {
            let Action { method, path, .. } = action;
            return Ok(Outcome::Failed(format!(
                "{method} {path}: expected {}, found {status}: {answer}",
                action.status
            )));
        }
        let golden = case.beside(&format!("{suffix}.golden.json"));
        let expected = golden.map(|text| serde_json::from_str(&text)).transpose()?;
        let found = if answer.is_empty() { None } else { Some(serde_json::from_str(&answer)?) };
        if let outcome @ Outcome::Failed(_) = compare_answers(expected, found, &policies) {
            return Ok(outcome);
        }
    }
    Ok(Outcome::Passed)
}

/// Whether the path is that of a kind that others replace.
fn is_legacy(path: &str) -> bool {
    path.split(['/', '?']).any(|part| legacy_kinds().iter().any(|kind| kind.path == part))
}

/// Some folders determine the role of the control plane.
fn in_folder(case: &Case, folder: &str) -> bool {
    Path::new(&case.name).parent().is_some_and(|path| path.iter().any(|part| part == folder))
}

struct Action {
    method: Method,
    path: String,
    status: u16,
}

/// `#/meshes/default/dataplanes/dp-1 404 method=DELETE`
fn actions(text: &str) -> anyhow::Result<Vec<Action>> {
    let comments = text.lines().take_while(|line| line.starts_with('#'));
    let mut actions = Vec::new();
    for line in comments.filter_map(|line| line.strip_prefix('#').filter(|rest| rest.starts_with('/'))) {
        let mut words = line.split_whitespace();
        let path = words.next().context("an action has a path")?.to_owned();
        let status = words.next().context("an action has a status")?.parse()?;
        let method = words.next().and_then(|word| word.strip_prefix("method=")).unwrap_or("GET").parse()?;
        actions.push(Action { method, path, status });
    }
    Ok(actions)
}

/// All policies of the case.
fn policies(store: &Store) -> Vec<policy::Body> {
    let snapshot = store.snapshot();
    let specs = kinds().iter().flat_map(|kind| snapshot.list(kind.name).map(move |record| (kind, &record.spec)));
    specs.filter_map(|(kind, spec)| policy::Body::stored(kind, spec).ok()?).collect()
}

fn compare_answers(expected: Option<Value>, found: Option<Value>, policies: &[policy::Body]) -> Outcome {
    let (mut expected, mut found) = (expected.unwrap_or_default(), found.unwrap_or_default());
    deviations::with_unknown_fields(&mut expected, &found);
    deviations::defaults::without(&mut expected, &found);
    deviations::names::with_sections_in_rules(&mut expected, policies);
    normalize(&mut expected);
    normalize(&mut found);
    compare(&expected, &found)
}

/// Removes values that vary between runs, and the order of problems, which is unspecified.
fn normalize(value: &mut Value) {
    match value {
        Value::String(text) => {
            if is_time(text) {
                "0001-01-01T00:00:00Z".clone_into(text);
            }
            *text = text.replace(ADDRESS, "{{address}}");
            // The recorded documents were sent without their final line break.
            text.truncate(text.trim_end_matches('\n').len());
        }
        Value::Array(list) => list.iter_mut().for_each(normalize),
        Value::Object(map) => {
            map.values_mut().for_each(normalize);
            for field in ["invalid_parameters", "causes"] {
                if let Some(Value::Array(list)) = map.get_mut(field) {
                    list.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => (),
    }
}

fn is_time(text: &str) -> bool {
    let shape = "dddd-dd-ddTdd:dd:d";
    text.len() > shape.len()
        && text.bytes().zip(shape.bytes()).all(|(b, s)| if s == b'd' { b.is_ascii_digit() } else { b == s })
}
