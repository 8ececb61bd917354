//! Compares a response with the recorded one.

use std::fmt::Write as _;

use anyhow::Context as _;
use kodiak_engine::patch;
use serde_json::{Value, json};

use super::{callers, normal};
use crate::{case::same, deviations};

/// A shadow configuration, the current one, and the patch between them.
struct Answer {
    before: Value,
    after: Value,
    diff: Vec<Value>,
}

/// Differences between the found and the expected response, as text; empty when they are equal.
///
/// Deviations are rules about configurations, not about patches. So both ends of the patch are compared, and our patch
/// between the recorded ends with the recorded one.
pub(super) fn differences(expected: Value, found: Value) -> anyhow::Result<String> {
    let mut expected = Answer::read(expected).context("recorded")?;
    let mut found = Answer::read(found).context("found")?;
    let mut text = String::new();
    let mut ours = patched(&expected.before, &expected.after);
    normal::diff(&mut ours);
    normal::diff(&mut expected.diff);
    show("the patch between the recorded configurations", &json!(expected.diff), &json!(ours), &mut text)?;
    for config in [&mut expected.before, &mut expected.after] {
        deviations::config::rewrite(config, super::HAS_IPV6);
    }
    // The recordings are normalized already, except for the placeholders of secrets.
    for config in [&mut expected.before, &mut expected.after, &mut found.before, &mut found.after] {
        deviations::trust::inlined(config);
        normal::config(config);
    }
    let Answer { before, after, .. } = &mut expected;
    callers::by_meaning(&mut [before, after, &mut found.before, &mut found.after]);
    show("the configuration", &expected.after, &found.after, &mut text)?;
    show("the current configuration", &expected.before, &found.before, &mut text)?;
    Ok(text)
}

impl Answer {
    fn read(mut answer: Value) -> anyhow::Result<Self> {
        let after = answer["xds"].take();
        let diff: Vec<Value> = serde_json::from_value(answer["diff"].take())?;
        Ok(Self { before: undone(after.clone(), &diff)?, after, diff })
    }
}

fn patched(before: &Value, after: &Value) -> Vec<Value> {
    patch::patch(before, after).iter().map(|operation| json!(operation)).collect()
}

fn show(what: &str, expected: &Value, found: &Value, text: &mut String) -> anyhow::Result<()> {
    if same(expected, found) {
        return Ok(());
    }
    writeln!(text, "{what}: from expected to found")?;
    for operation in patched(expected, found).iter().filter(|operation| operation["op"] != "test") {
        let (op, path) = (operation["op"].as_str().unwrap_or_default(), operation["path"].as_str().unwrap_or_default());
        writeln!(text, "  {op:6} {path} {}", operation["value"])?;
    }
    Ok(())
}

/// Reverts a patch, from its last operation to its first.
fn undone(mut document: Value, operations: &[Value]) -> anyhow::Result<Value> {
    for operation in operations.iter().rev() {
        let path = operation["path"].as_str().context("an operation has a path")?;
        let (parent, key) = path.rsplit_once('/').context("a path begins with a slash")?;
        let parent = document.pointer_mut(parent).with_context(|| format!("there is nothing at {path}"))?;
        let value = &operation["value"];
        let key = key.replace("~1", "/").replace("~0", "~");
        let gone = match (operation["op"].as_str(), parent) {
            (Some("add"), Value::Object(fields)) => fields.remove(&key),
            (Some("add"), Value::Array(items)) => {
                let place: usize = key.parse()?;
                (place < items.len()).then(|| items.remove(place))
            }
            (Some("remove"), Value::Object(fields)) => {
                fields.insert(key, value.clone());
                continue;
            }
            (Some("remove"), Value::Array(items)) => {
                items.insert(key.parse::<usize>()?.min(items.len()), value.clone());
                continue;
            }
            (Some("test"), _) => continue,
            (op, _) => anyhow::bail!("{op:?} at {path}"),
        };
        anyhow::ensure!(gone.as_ref() == Some(value), "the value added at {path} is missing");
    }
    Ok(document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patch_is_reverted() {
        let (before, after) = (json!({ "a": [1, 2, { "x": 1 }] }), json!({ "a": [2, { "x": 2 }, 5], "b": { "c": 1 } }));
        assert_eq!(undone(after.clone(), &patched(&before, &after)).unwrap(), before);
        let stranger = [json!({ "op": "add", "path": "/b", "value": 7 })];
        assert!(undone(after, &stranger).is_err());
    }

    #[test]
    fn equal_answers_have_no_differences_and_others_are_shown() {
        let answer = |port: u32| json!({ "xds": { "t": { "n": { "port": port } } }, "diff": [] });
        assert_eq!(differences(answer(1), answer(1)).unwrap(), "");
        let text = differences(answer(1), answer(2)).unwrap();
        assert!(text.contains("add    /t/n/port 2"), "{text}");
    }
}
