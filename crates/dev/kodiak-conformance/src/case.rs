//! Finds cases, and compares results.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::{Number, Value};

pub(crate) struct Case {
    /// Path below the suite, without its suffix.
    pub(crate) name: String,
    pub(crate) input: PathBuf,
    /// Path of the input without its suffix: related files have the same stem.
    stem: String,
}

pub(crate) enum Outcome {
    Passed,
    Failed(String),
    Skipped(String),
}

impl Case {
    pub(crate) fn text(&self) -> anyhow::Result<String> {
        fs::read_to_string(&self.input).with_context(|| format!("cannot read {}", self.input.display()))
    }

    /// Text of the file beside the input with this suffix, if there is one.
    pub(crate) fn beside(&self, ending: &str) -> Option<String> {
        fs::read_to_string(format!("{}{ending}", self.stem)).ok()
    }

    /// Text of the file that is named after the folder of the input and has this suffix, if there is one.
    pub(crate) fn above(&self, ending: &str) -> Option<String> {
        let folder = self.input.parent()?.to_str()?;
        fs::read_to_string(format!("{folder}{ending}")).ok()
    }
}

pub(crate) fn find(folder: &Path, endings: &[&str]) -> anyhow::Result<Vec<Case>> {
    let mut cases = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        for entry in fs::read_dir(&current).with_context(|| format!("cannot read {}", current.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = path.to_string_lossy().into_owned();
            if let Some(stem) = endings.iter().find_map(|ending| text.strip_suffix(ending)) {
                let name = Path::new(stem).strip_prefix(folder).map_or_else(|_| stem.into(), Path::to_path_buf);
                cases.push(Case { name: name.to_string_lossy().into_owned(), stem: stem.to_owned(), input: path });
            }
        }
    }
    cases.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(cases)
}

/// Passed when equal; otherwise both sides, pretty-printed.
pub(crate) fn compare(expected: &Value, found: &Value) -> Outcome {
    if same(expected, found) {
        return Outcome::Passed;
    }
    let pretty = |value: &Value| {
        let mut value = value.clone();
        // The order of fields is irrelevant and would hide the difference.
        value.sort_all_objects();
        serde_json::to_string_pretty(&value).unwrap_or_default()
    };
    let (expected, found) = (pretty(expected), pretty(found));
    let (wanted, got): (Vec<_>, Vec<_>) = (expected.lines().collect(), found.lines().collect());
    let same = wanted.iter().zip(&got).take_while(|(a, b)| a == b).count();
    let around = |lines: &[&str], sign: &str| {
        let start = same.saturating_sub(3);
        let lines: Vec<String> = lines.iter().skip(start).take(14).map(|line| format!("  {sign} {line}")).collect();
        lines.join("\n") + "\n"
    };
    Outcome::Failed(format!("{}{}", around(&wanted, "expected"), around(&got, "found   ")))
}

/// Equal, where 20 and 20.0 are the same number.
pub(crate) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => one == other || is_same_float(one, other),
        _ => one == other,
    }
}

/// Only where one of them is written with a fraction: large whole numbers must be equal to the last digit.
fn is_same_float(one: &Number, other: &Number) -> bool {
    (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_compared_by_value() {
        assert!(same(&json!({ "a": [20, { "b": 0.5 }] }), &json!({ "a": [20.0, { "b": 0.5 }] })));
        for other in [json!(20.5), json!("20"), json!(null), json!([20])] {
            assert!(!same(&json!(20), &other), "{other}");
        }
        assert!(!same(&json!(u64::MAX), &json!(u64::MAX - 1)));
        assert!(!same(&json!({ "a": 1 }), &json!({ "a": 1, "b": 1 })));
    }
}
