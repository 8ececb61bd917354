//! Types of settings, read from their source: fields with their doc comments, and the words of enums.
//!
//! Reads code as rustfmt writes it: a field and its comment each on lines of their own.

use std::collections::BTreeMap;

/// Types by their name.
#[derive(Default)]
pub(super) struct Types {
    structs: BTreeMap<String, Struct>,
    enums: BTreeMap<String, Vec<String>>,
}

#[derive(Default)]
pub(super) struct Struct {
    pub(super) doc: String,
    fields: BTreeMap<String, Field>,
}

#[derive(Clone)]
pub(super) struct Field {
    pub(super) doc: String,
    pub(super) type_name: String,
}

enum Open {
    Struct(String),
    Enum(String),
}

impl Types {
    /// Adds all public types of a file.
    pub(super) fn add(&mut self, source: &str) {
        let (mut doc, mut rename) = (String::new(), None);
        let mut open = None;
        for line in source.lines() {
            let text = line.trim();
            if let Some(comment) = text.strip_prefix("/// ") {
                doc.push_str(if doc.is_empty() { "" } else { " " });
                doc.push_str(comment);
            } else if text.starts_with("#[") {
                rename = rename.or_else(|| renamed(text));
            } else {
                self.add_line(line, &mut open, std::mem::take(&mut doc), rename.take());
            }
        }
    }

    fn add_line(&mut self, line: &str, open: &mut Option<Open>, doc: String, rename: Option<String>) {
        let text = line.trim();
        match open {
            None => {
                let name = |keyword: &str| text.strip_prefix(keyword)?.strip_suffix(" {").map(str::to_owned);
                if let Some(name) = name("pub struct ") {
                    self.structs.insert(name.clone(), Struct { doc, fields: BTreeMap::new() });
                    *open = Some(Open::Struct(name));
                } else if let Some(name) = name("pub enum ") {
                    self.enums.insert(name.clone(), Vec::new());
                    *open = Some(Open::Enum(name));
                }
            }
            Some(_) if line == "}" => *open = None,
            Some(Open::Struct(name)) => {
                let field = text.strip_prefix("pub ").and_then(|text| text.strip_suffix(',')?.split_once(": "));
                if let (Some((field, type_name)), Some(found)) = (field, self.structs.get_mut(name)) {
                    let key = rename.unwrap_or_else(|| camel_case(field));
                    found.fields.insert(key, Field { doc, type_name: type_name.to_owned() });
                }
            }
            Some(Open::Enum(name)) => {
                if let (Some(variant), Some(words)) = (text.strip_suffix(','), self.enums.get_mut(name)) {
                    words.push(rename.unwrap_or_else(|| lower_first(variant)));
                }
            }
        }
    }

    pub(super) fn structure(&self, name: &str) -> Option<&Struct> {
        self.structs.get(name)
    }

    /// Words that an enum takes; none for other types.
    pub(super) fn words(&self, name: &str) -> &[String] {
        self.enums.get(name).map(Vec::as_slice).unwrap_or_default()
    }
}

impl Struct {
    pub(super) fn field(&self, key: &str) -> Option<&Field> {
        self.fields.get(key)
    }
}

/// The name in `#[serde(rename = "name")]`.
fn renamed(attribute: &str) -> Option<String> {
    attribute.split_once("rename = \"")?.1.split('"').next().map(str::to_owned)
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |text, word| {
        let (initial, rest) = word.split_at(word.len().min(1));
        text + &initial.to_uppercase() + rest
    })
}

fn lower_first(name: &str) -> String {
    let (initial, rest) = name.split_at(name.len().min(1));
    initial.to_lowercase() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_words_are_read_with_their_comments() {
        let mut types = Types::default();
        types.add(
            "/// The store.\n#[derive(Debug)]\n#[serde(default, rename_all = \"camelCase\")]\npub struct Store {\n    \
             #[serde(rename = \"type\")]\n    pub store_type: StoreType,\n    /// Encrypts secrets\n    /// at rest.\n    \
             pub seal_secrets: bool,\n}\n\nimpl Store {\n    pub fn x() {}\n}\n\npub enum StoreType {\n    /// A file.\n    \
             #[default]\n    File,\n    PostgresTls,\n}\n",
        );
        let store = types.structure("Store").unwrap();
        assert_eq!(store.doc, "The store.");
        assert_eq!(store.field("type").unwrap().type_name, "StoreType");
        assert_eq!(store.field("sealSecrets").unwrap().doc, "Encrypts secrets at rest.");
        assert!(store.field("storeType").is_none());
        assert_eq!(types.words("StoreType"), ["file", "postgresTls"]);
    }
}
