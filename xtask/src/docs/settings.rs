//! The reference of settings: names and defaults from `kodiak run --show-config`, descriptions from the doc comments of
//! their types. A setting of the one that is missing in the other fails the build of the book.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::pages::Generated;
use super::settings_source::{Struct, Types};
use crate::process;

/// Folder of the types, of which [`ROOT`] is the first.
const FOLDER: &str = "crates/bin/kodiak-cp/src/config";
const ROOT: &str = "Config";

const INTRODUCTION: &str = "\
# Settings

All settings of the control plane (`kodiak run`), generated from its code. [Configuration](../operations/configuration.md) \
says how they are set. In a file, a setting is its path; `apiServer.http.port` is

```yaml
apiServer:
  http:
    port: 8080
```

The environment variable is the path in capitals, shown below each name; `--set apiServer.http.port=8080` is the flag.
";

/// A setting with its default.
#[derive(Debug, PartialEq)]
struct Setting {
    path: Vec<String>,
    default: String,
}

pub(super) fn page(root: &Path, program: &Path) -> Result<Generated> {
    let mut types = Types::default();
    for entry in fs::read_dir(root.join(FOLDER)).with_context(|| format!("cannot read {FOLDER}"))? {
        let path = entry?.path();
        types.add(&fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?);
    }
    let mut command = Command::new(program);
    let is_setting = |key: &str| key.starts_with("KODIAK_") || key.starts_with("KUMA_");
    for (key, _) in env::vars_os().filter(|(key, _)| is_setting(&key.to_string_lossy())) {
        command.env_remove(key);
    }
    let settings = settings(&process::output(command.args(["run", "--show-config"]))?)?;
    let text = render(&settings, &types)?;
    Ok(Generated { path: "reference/settings.md".to_owned(), title: "Settings".to_owned(), origin: None, text })
}

/// Reads what `--show-config` prints: nested keys, scalars, and lists of scalars.
fn settings(yaml: &str) -> Result<Vec<Setting>> {
    let mut path: Vec<String> = Vec::new();
    let mut settings: Vec<Setting> = Vec::new();
    for line in yaml.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        if let Some(item) = line.trim().strip_prefix("- ") {
            match settings.last_mut() {
                // The key of the list was read as a section.
                Some(last) if last.path == path => last.default = format!("{}, {item}", last.default),
                _ => settings.push(Setting { path: path.clone(), default: item.to_owned() }),
            }
            continue;
        }
        let (key, value) = line.trim().split_once(':').with_context(|| format!("no setting: {line:?}"))?;
        path.truncate(depth);
        path.push(key.to_owned());
        if !value.is_empty() {
            let value = value.trim().trim_matches('"');
            let default = if value == "[]" { "" } else { value };
            settings.push(Setting { path: path.clone(), default: default.to_owned() });
        }
    }
    Ok(settings)
}

fn render(settings: &[Setting], types: &Types) -> Result<String> {
    let mut text = INTRODUCTION.to_owned();
    let mut section = "";
    for Setting { path, default } in settings {
        if path[0] != section {
            section = &path[0];
            let _ = writeln!(text, "\n## {section}\n\n| setting | default | meaning |\n|---|---|---|");
        }
        let name = path.join(".");
        let meaning = describe(path, types)?.replace('|', "\\|");
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(text, "| `{name}`<br>`{}` | {default} | {meaning} |", variable(path));
    }
    Ok(text)
}

/// `KODIAK_API_SERVER_HTTP_PORT` for `apiServer.http.port`.
fn variable(path: &[String]) -> String {
    let mut name = "KODIAK".to_owned();
    for part in path {
        name.push('_');
        for c in part.chars() {
            if c.is_uppercase() {
                name.push('_');
            }
            name.extend(c.to_uppercase());
        }
    }
    name
}

/// The doc comment of the field, the words that it takes, and the comments of what it is a part of.
fn describe(path: &[String], types: &Types) -> Result<String> {
    let mut structure: &Struct = types.structure(ROOT).with_context(|| format!("{FOLDER} has no struct {ROOT}"))?;
    let mut outer = String::new();
    for (index, key) in path.iter().enumerate() {
        let Some(field) = structure.field(key) else {
            bail!("the setting {} is not a field in {FOLDER}", path.join("."));
        };
        let nested = types.structure(&field.type_name);
        if index + 1 < path.len() {
            structure = nested.with_context(|| format!("{FOLDER} has no struct {}", field.type_name))?;
            // The comment of the type says what all its fields are about.
            let doc = if field.doc.is_empty() { &structure.doc } else { &field.doc };
            if !doc.is_empty() {
                outer.clone_from(doc);
            }
            continue;
        }
        let words = types.words(&field.type_name);
        let words = words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
        let words = if words.is_empty() { words } else { format!("One of {words}.") };
        let doc = if field.doc.is_empty() { &outer } else { &field.doc };
        if doc.is_empty() {
            bail!("the setting {} has no doc comment in {FOLDER}: say what it does", path.join("."));
        }
        return Ok(format!("{doc} {words}").trim().to_owned());
    }
    bail!("a setting has a name")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "pub struct Config {\n    pub store: Store,\n}\npub struct Store {\n    /// Where records are.\n    \
                          pub path: PathBuf,\n    /// Names.\n    pub lists: Vec<String>,\n    /// Which.\n    pub kind: Kind,\n    pub bare: u16,\n}\n\
                          pub enum Kind {\n    File,\n    Memory,\n}\n";

    #[test]
    fn settings_are_shown_with_defaults_and_comments() {
        let yaml = "store:\n  path: \"\"\n  lists:\n  - a\n  - b\n  kind: file\n";
        let mut types = Types::default();
        types.add(SOURCE);
        let text = render(&settings(yaml).unwrap(), &types).unwrap();
        assert!(text.contains("| `store.path`<br>`KODIAK_STORE_PATH` |  | Where records are. |"), "{text}");
        assert!(text.contains("| `store.lists`<br>`KODIAK_STORE_LISTS` | `a, b` | Names. |"), "{text}");
        assert!(text.contains("| `file` | Which. One of `file`, `memory`. |"), "{text}");
    }

    #[test]
    fn a_setting_without_a_field_or_a_comment_is_an_error() {
        let mut types = Types::default();
        types.add(SOURCE);
        let error = render(&settings("store:\n  other: 1\n").unwrap(), &types).unwrap_err().to_string();
        assert_eq!(error, format!("the setting store.other is not a field in {FOLDER}"));
        let error = render(&settings("store:\n  bare: 1\n").unwrap(), &types).unwrap_err().to_string();
        assert!(error.starts_with("the setting store.bare has no doc comment"), "{error}");
    }

    #[test]
    fn variables_are_paths_in_capitals() {
        let path = ["apiServer", "http", "port"].map(str::to_owned);
        assert_eq!(variable(&path), "KODIAK_API_SERVER_HTTP_PORT");
    }
}
