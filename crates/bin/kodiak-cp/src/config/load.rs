//! Loads the configuration from a file, the environment and flags. Later sources override earlier ones.

use std::fmt;

use kodiak_model::yaml;
use serde_json::{Map, Value};

use super::Config;

/// Sources of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Name and text of the file.
    pub file: Option<(String, String)>,
    /// Variables that start with `KODIAK_`.
    pub environment: Vec<(String, String)>,
    /// `key.path=value`
    pub flags: Vec<String>,
}

/// Invalid configuration, with the source of the invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    pub place: String,
    pub message: String,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl std::error::Error for LoadError {}

pub fn load(sources: &Sources) -> Result<Config, LoadError> {
    let mut tree = serde_json::to_value(Config::default()).expect("the configuration is plain data");
    let keys = Keys::of(&tree);
    if let Some((name, text)) = &sources.file {
        add_file(&mut tree, name, text)?;
    }
    for (variable, text) in &sources.environment {
        if let Some(key) = keys.by_variable(variable)? {
            set(&mut tree, &key.path, key.read(text));
            decode(&tree).map_err(|message| LoadError { place: variable.clone(), message })?;
        }
    }
    for flag in &sources.flags {
        let place = || format!("--set {flag}");
        let Some((path, text)) = flag.split_once('=') else {
            return Err(LoadError { place: place(), message: "write it as key=value".to_owned() });
        };
        let Some(key) = keys.by_path(path) else {
            return Err(LoadError { place: place(), message: keys.unknown(path) });
        };
        set(&mut tree, &key.path, key.read(text));
        decode(&tree).map_err(|message| LoadError { place: place(), message })?;
    }
    decode(&tree).map_err(|message| LoadError { place: "configuration".to_owned(), message })
}

fn add_file(tree: &mut Value, name: &str, text: &str) -> Result<(), LoadError> {
    let broken = |error: yaml::YamlError| LoadError {
        place: format!("{name}:{}:{}", error.mark.line, error.mark.column),
        message: error.message,
    };
    let mut documents = yaml::parse(text).map_err(broken)?;
    if documents.len() > 1 {
        return Err(LoadError { place: name.to_owned(), message: "more than one document".to_owned() });
    }
    let Some(document) = documents.pop() else { return Ok(()) };
    merge(tree, document.value);
    serde_path_to_error::deserialize::<_, Config>(&*tree).map(drop).map_err(|error| {
        let path = error.path().to_string();
        let mark = document.places.find(&path).map(|found| found.mark);
        let place = mark.map_or_else(|| name.to_owned(), |mark| format!("{name}:{}:{}", mark.line, mark.column));
        LoadError { place, message: format!("{path}: {}", error.inner()) }
    })
}

/// Merges the file into the tree; missing keys keep their values.
fn merge(tree: &mut Value, said: Value) {
    match (tree, said) {
        (Value::Object(tree), Value::Object(said)) => {
            for (key, value) in said {
                merge(tree.entry(key).or_insert(Value::Null), value);
            }
        }
        (tree, said) => *tree = said,
    }
}

fn decode(tree: &Value) -> Result<Config, String> {
    serde_path_to_error::deserialize(tree.clone()).map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

fn set(tree: &mut Value, path: &[String], value: Value) {
    let mut at = tree;
    for segment in path {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = at.as_object_mut().expect("made an object above").entry(segment.clone()).or_insert(Value::Null);
    }
    *at = value;
}

/// Keys of all settings: the leaves of the default configuration.
struct Keys(Vec<Key>);

struct Key {
    path: Vec<String>,
    variable: String,
    default: Value,
}

impl Keys {
    fn of(defaults: &Value) -> Self {
        let mut keys = Vec::new();
        leaves(defaults, &mut Vec::new(), &mut keys);
        Self(keys)
    }

    fn by_path(&self, path: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.path.join(".") == path)
    }

    /// Ignores variables of other parts of the program; others must name a setting.
    fn by_variable(&self, variable: &str) -> Result<Option<&Key>, LoadError> {
        if let Some(key) = self.0.iter().find(|key| key.variable == variable) {
            return Ok(Some(key));
        }
        let section = |key: &Key| format!("KODIAK_{}_", screaming(&key.path[0]));
        if self.0.iter().any(|key| variable.starts_with(&section(key))) {
            let message = "no such setting; `kodiak run --show-config` lists all".to_owned();
            return Err(LoadError { place: variable.to_owned(), message });
        }
        Ok(None)
    }

    fn unknown(&self, path: &str) -> String {
        let last = path.rsplit('.').next().unwrap_or_default();
        let alike: Vec<String> = self
            .0
            .iter()
            .filter(|key| key.path.last().is_some_and(|name| name.eq_ignore_ascii_case(last)))
            .map(|key| key.path.join("."))
            .collect();
        match alike.as_slice() {
            [] => "no such setting; `kodiak run --show-config` lists all".to_owned(),
            alike => format!("no such setting; did you mean {}?", alike.join(" or ")),
        }
    }
}

impl Key {
    /// Parses text as the type of the default; a mismatch is an error of decoding.
    fn read(&self, text: &str) -> Value {
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
    let variable = path.iter().fold("KODIAK".to_owned(), |name, segment| format!("{name}_{}", screaming(segment)));
    keys.push(Key { path: path.clone(), variable, default: value.clone() });
}

/// `apiServer` as `API_SERVER`.
fn screaming(camel: &str) -> String {
    let mut out = String::new();
    for c in camel.chars() {
        if c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}
