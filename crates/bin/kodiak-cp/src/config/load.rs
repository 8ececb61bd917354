//! Loads the configuration from a file, the environment and flags. Later sources override earlier ones: file, variables
//! of Kuma, variables of Kodiak, flags. Settings of Kuma are translated by `kuma_settings`.

use std::fmt;

use kodiak_model::yaml;
use serde_json::{Map, Value};

use super::Config;
use super::keys::{Key, Keys, no_such_variable_of_kuma};
use crate::kuma_settings::{self, KumaSetting, Meaning};

/// Sources of the configuration.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// Name and text of the file.
    pub file: Option<(String, String)>,
    /// Variables that start with `KODIAK_` or `KUMA_`.
    pub environment: Vec<(String, String)>,
    /// `key.path=value`
    pub flags: Vec<String>,
}

/// Configuration, and what became of settings of Kuma.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    pub config: Config,
    pub from_kuma: Vec<FromKuma>,
    pub without_effect: Vec<WithoutEffect>,
}

/// A setting of ours that a setting of Kuma with another name has set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FromKuma {
    pub setting: String,
    /// Kuma's path and the place in the file, or the variable.
    pub source: String,
}

/// A setting of Kuma that has no effect here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithoutEffect {
    /// Kuma's path, or the variable.
    pub setting: String,
    pub why: &'static str,
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

pub fn load(sources: &Sources) -> Result<Loaded, LoadError> {
    let tree = serde_json::to_value(Config::default()).expect("the configuration is plain data");
    let keys = Keys::of(&tree);
    let mut loader = Loader { keys, tree, from_kuma: Vec::new(), without_effect: Vec::new() };
    if let Some((name, text)) = &sources.file {
        loader.add_file(name, text)?;
    }
    let (kuma, kodiak): (Vec<_>, Vec<_>) = sources.environment.iter().partition(|(name, _)| name.starts_with("KUMA_"));
    for (variable, text) in kuma {
        loader.add_kuma_variable(variable, text)?;
    }
    for (variable, text) in kodiak {
        loader.add_variable(variable, text)?;
    }
    for flag in &sources.flags {
        loader.add_flag(flag)?;
    }
    let Loader { tree, from_kuma, without_effect, .. } = loader;
    let config = decode(&tree).map_err(|message| LoadError { place: "configuration".to_owned(), message })?;
    Ok(Loaded { config, from_kuma, without_effect })
}

struct Loader {
    keys: Keys,
    tree: Value,
    from_kuma: Vec<FromKuma>,
    without_effect: Vec<WithoutEffect>,
}

impl Loader {
    fn add_file(&mut self, name: &str, text: &str) -> Result<(), LoadError> {
        let broken = |error: yaml::YamlError| LoadError {
            place: format!("{name}:{}:{}", error.mark.line, error.mark.column),
            message: error.message,
        };
        let mut documents = yaml::parse(text).map_err(broken)?;
        if documents.len() > 1 {
            return Err(LoadError { place: name.to_owned(), message: "more than one document".to_owned() });
        }
        let Some(document) = documents.pop() else { return Ok(()) };
        let place = |path: &str| {
            let mark = document.places.find(path).map(|found| found.mark);
            mark.map_or_else(|| name.to_owned(), |mark| format!("{name}:{}:{}", mark.line, mark.column))
        };
        let mut written = Vec::new();
        match document.value {
            Value::Object(map) => flatten(&self.keys, map, &mut Vec::new(), &mut written),
            Value::Null => Ok(()),
            other => Err((String::new(), format!("must be a mapping of settings, not {other}"))),
        }
        .map_err(|(path, message)| LoadError { place: place(&path), message })?;
        let ours: Vec<String> = written.iter().filter(|it| it.kuma().is_none()).map(Written::path).collect();
        for setting in written {
            let path = setting.path();
            let refused = |message: String| LoadError { place: place(&path), message: format!("{path}: {message}") };
            let Some(kuma) = setting.kuma() else {
                set(&mut self.tree, &setting.path, setting.value);
                continue;
            };
            if let Meaning::As(ours_path, _) = kuma.meaning
                && ours.iter().any(|it| it == ours_path)
            {
                return Err(refused(format!("{ours_path} is in the file, too; remove one of them")));
            }
            let source = format!("{path} in {}", place(&path));
            let text = kuma_settings::text_of(&setting.value);
            self.add_kuma(kuma, &path, source, &text).map_err(refused)?;
        }
        serde_path_to_error::deserialize::<_, Config>(&self.tree).map(drop).map_err(|error| {
            let path = error.path().to_string();
            LoadError { place: place(&path), message: format!("{path}: {}", error.inner()) }
        })
    }

    fn add_kuma_variable(&mut self, variable: &str, text: &str) -> Result<(), LoadError> {
        let refused = |message: String| LoadError { place: variable.to_owned(), message };
        match kuma_settings::by_variable(variable) {
            Some(kuma) => self.add_kuma(kuma, variable, variable.to_owned(), text).map_err(refused),
            None if kuma_settings::is_of_the_control_plane(variable) => {
                Err(refused(no_such_variable_of_kuma(variable)))
            }
            // Variables of kuma-dp and kumactl are none of ours.
            None => Ok(()),
        }
    }

    /// `name` is the path or the variable, whichever the user wrote.
    fn add_kuma(&mut self, kuma: &KumaSetting, name: &str, source: String, text: &str) -> Result<(), String> {
        match &kuma.meaning {
            Meaning::Same => self.set_from_kuma(kuma.path, source, text),
            Meaning::As(path, convert) => {
                let converted = convert(text)?;
                if name == *path {
                    self.set_text(path, &converted)
                } else {
                    self.set_from_kuma(path, source, &converted)
                }
            }
            Meaning::Only(accepted, why) => kuma_settings::check_fixed(text, accepted, why),
            Meaning::Ignored(_) if text.is_empty() => Ok(()),
            Meaning::Ignored(why) => {
                self.without_effect.push(WithoutEffect { setting: name.to_owned(), why });
                Ok(())
            }
        }
    }

    fn set_from_kuma(&mut self, path: &str, source: String, text: &str) -> Result<(), String> {
        self.from_kuma.retain(|earlier| earlier.setting != path);
        self.from_kuma.push(FromKuma { setting: path.to_owned(), source });
        self.set_text(path, text)
    }

    fn set_text(&mut self, path: &str, text: &str) -> Result<(), String> {
        let key = self.keys.by_path(path).expect("a test looks up all paths of the table");
        set(&mut self.tree, &key.path, key.read(text));
        decode(&self.tree).map(drop)
    }

    fn add_variable(&mut self, variable: &str, text: &str) -> Result<(), LoadError> {
        let refused = |message: String| LoadError { place: variable.to_owned(), message };
        let Some(path) = self.keys.by_variable(variable).map_err(refused)?.map(Key::dotted) else { return Ok(()) };
        self.override_text(&path, text).map_err(refused)
    }

    fn add_flag(&mut self, flag: &str) -> Result<(), LoadError> {
        let refused = |message: String| LoadError { place: format!("--set {flag}"), message };
        let (path, text) = flag.split_once('=').ok_or_else(|| refused("write it as key=value".to_owned()))?;
        if self.keys.by_path(path).is_none() {
            return Err(refused(self.keys.no_such(path)));
        }
        self.override_text(path, text).map_err(refused)
    }

    /// Sets a value that overrides one of Kuma.
    fn override_text(&mut self, path: &str, text: &str) -> Result<(), String> {
        self.from_kuma.retain(|earlier| earlier.setting != path);
        self.set_text(path, text)
    }
}

/// A setting of the file.
struct Written {
    path: Vec<String>,
    value: Value,
}

impl Written {
    fn path(&self) -> String {
        self.path.join(".")
    }

    /// `None` for a setting of ours, and for one of Kuma that is the same.
    fn kuma(&self) -> Option<&'static KumaSetting> {
        kuma_settings::by_path(&self.path()).filter(|kuma| !matches!(kuma.meaning, Meaning::Same))
    }
}

/// Settings of the file, with the path and the message of the first unknown one as error. A key without a value is not
/// set.
fn flatten(
    keys: &Keys,
    section: Map<String, Value>,
    path: &mut Vec<String>,
    written: &mut Vec<Written>,
) -> Result<(), (String, String)> {
    for (name, value) in section {
        path.push(name);
        let dotted = path.join(".");
        if keys.by_path(&dotted).is_some() || kuma_settings::by_path(&dotted).is_some() {
            if !value.is_null() {
                written.push(Written { path: path.clone(), value });
            }
        } else if keys.is_section(&dotted) {
            match value {
                Value::Object(section) => flatten(keys, section, path, written)?,
                Value::Null => (),
                other => {
                    let message = format!("{dotted}: must be a section with settings, not {other}");
                    return Err((dotted, message));
                }
            }
        } else {
            let message = format!("{dotted}: {}", keys.no_such(&dotted));
            return Err((dotted, message));
        }
        path.pop();
    }
    Ok(())
}

fn decode(tree: &Value) -> Result<Config, String> {
    serde_path_to_error::deserialize(tree).map_err(|error| format!("{}: {}", error.path(), error.inner()))
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
