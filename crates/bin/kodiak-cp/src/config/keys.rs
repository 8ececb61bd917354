//! Names of all settings: paths and variables, and suggestions for misspelt ones.

use serde_json::Value;

use crate::kuma_settings::{self, SETTINGS, variable};

/// Largest edit distance of a suggestion.
const NEAR: usize = 4;
const SEE_ALL: &str = "`kodiak run --show-config` lists all";

/// Keys of all settings: the leaves of the default configuration.
pub(super) struct Keys(Vec<Key>);

pub(super) struct Key {
    pub(super) path: Vec<String>,
    variable: String,
    default: Value,
}

impl Keys {
    pub(super) fn of(defaults: &Value) -> Self {
        let mut keys = Vec::new();
        leaves(defaults, &mut Vec::new(), &mut keys);
        Self(keys)
    }

    pub(super) fn by_path(&self, path: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.dotted() == path)
    }

    /// Whether settings of ours or of Kuma are below the path.
    pub(super) fn is_section(&self, path: &str) -> bool {
        self.known().any(|known| known.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Ignores variables of other parts of the program; others must name a setting.
    pub(super) fn by_variable(&self, variable_name: &str) -> Result<Option<&Key>, String> {
        if let Some(key) = self.0.iter().find(|key| key.variable == variable_name) {
            return Ok(Some(key));
        }
        let section = |key: &Key| format!("{}_", variable("KODIAK", [key.path[0].as_str()]));
        if self.0.iter().any(|key| variable_name.starts_with(&section(key))) {
            let near = nearest(variable_name, self.0.iter().map(|key| key.variable.clone()));
            return Err(suggestion(near.as_slice()));
        }
        Ok(None)
    }

    /// Suggests settings with the same last name, or else the most similar path.
    pub(super) fn no_such(&self, path: &str) -> String {
        let last = path.rsplit('.').next().unwrap_or_default();
        let same_name = |key: &&Key| key.path.last().is_some_and(|name| name.eq_ignore_ascii_case(last));
        let alike: Vec<String> = self.0.iter().filter(same_name).map(Key::dotted).collect();
        if !alike.is_empty() {
            return suggestion(&alike);
        }
        let depth = path.split('.').count();
        let start = |known: String| known.split('.').take(depth).collect::<Vec<_>>().join(".");
        suggestion(nearest(path, self.known().map(start)).as_slice())
    }

    /// Paths of settings of ours and of Kuma.
    fn known(&self) -> impl Iterator<Item = String> {
        let kuma = SETTINGS.iter().map(|kuma: &kuma_settings::KumaSetting| kuma.section_or_path().to_owned());
        self.0.iter().map(Key::dotted).chain(kuma)
    }
}

pub(super) fn no_such_variable_of_kuma(name: &str) -> String {
    let near = nearest(name, SETTINGS.iter().map(|kuma| kuma.variable().into_owned()));
    format!("Kuma 2.14 has {}", suggestion(near.as_slice()))
}

fn suggestion(alike: &[String]) -> String {
    match alike {
        [] => format!("no such setting; {SEE_ALL}"),
        alike => format!("no such setting; did you mean {}?", alike.join(" or ")),
    }
}

fn nearest(typed: &str, known: impl Iterator<Item = String>) -> Option<String> {
    let distance = |known: String| (strsim::damerau_levenshtein(typed, &known), known);
    known.map(distance).filter(|(distance, _)| *distance <= NEAR).min().map(|(_, known)| known)
}

impl Key {
    pub(super) fn dotted(&self) -> String {
        self.path.join(".")
    }

    /// Parses text as the type of the default; a mismatch is an error of decoding.
    pub(super) fn read(&self, text: &str) -> Value {
        let as_text = || Value::String(text.to_owned());
        match &self.default {
            Value::Bool(_) => text.parse().map_or_else(|_| as_text(), Value::Bool),
            Value::Number(_) => text.parse::<u64>().map_or_else(|_| as_text(), Value::from),
            Value::Array(_) => {
                text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(Value::from).collect()
            }
            Value::Null | Value::String(_) | Value::Object(_) => as_text(),
        }
    }
}

fn leaves(value: &Value, path: &mut Vec<String>, keys: &mut Vec<Key>) {
    if let Value::Object(map) = value {
        for (name, value) in map {
            path.push(name.clone());
            leaves(value, path, keys);
            path.pop();
        }
        return;
    }
    let variable = variable("KODIAK", path.iter().map(String::as_str));
    keys.push(Key { path: path.clone(), variable, default: value.clone() });
}
