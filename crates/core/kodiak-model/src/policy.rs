//! A policy in the form that matching and merging use, independent of its kind.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{Kind, PolicyFacts, TargetRef, source_match::Match, written};

/// Configuration of a policy item, before or after merging. Cheap to clone, compare and hash.
#[derive(Debug, Clone)]
pub struct Conf(Arc<Hashed>);

#[derive(Debug)]
struct Hashed {
    hash: u64,
    value: Value,
}

impl Conf {
    pub fn new(value: Value) -> Self {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Self(Arc::new(Hashed { hash: hasher.finish(), value }))
    }

    pub fn json(&self) -> &Value {
        &self.0.value
    }

    /// Deserializes into the policy's own type. It was validated when it was stored; an unreadable conf counts as
    /// empty.
    pub fn read<T: DeserializeOwned + Default>(&self) -> T {
        T::deserialize(self.json()).unwrap_or_default()
    }
}

impl PartialEq for Conf {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self.0.hash == other.0.hash && self.0.value == other.0.value)
    }
}

impl Eq for Conf {}

impl Hash for Conf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl Default for Conf {
    fn default() -> Self {
        Self::new(Value::Null)
    }
}

/// Merges confs field by field; later ones override earlier ones. `null` removes a field, and lists whose names start
/// with `append` are concatenated.
pub fn merge<'a>(confs: impl IntoIterator<Item = &'a Conf>) -> Conf {
    let mut confs = confs.into_iter();
    let Some(first) = confs.next() else { return Conf::new(Value::Object(Map::new())) };
    let mut merged = None;
    for conf in confs {
        merge_into(merged.get_or_insert_with(|| first.json().clone()), conf.json());
    }
    merged.map_or_else(|| first.clone(), Conf::new)
}

/// A JSON merge patch (RFC 7396), except that lists whose names start with `append` are concatenated.
pub fn merge_into(target: &mut Value, with: &Value) {
    let Value::Object(with) = with else {
        *target = with.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else { return };
    for (field, value) in with {
        if value.is_null() {
            target.shift_remove(field);
            continue;
        }
        let there = target.entry(field.as_str()).or_insert(Value::Null);
        match (there, value) {
            (Value::Array(there), Value::Array(more)) if is_appended(field) => there.extend_from_slice(more),
            (there, value) => merge_into(there, value),
        }
    }
}

fn is_appended(field: &str) -> bool {
    field.strip_prefix("append").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Where an item of `to` has its configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfShape {
    /// Under `default`. Merged field by field.
    Default,
    /// `rules`, each with `matches`, and `hostnames`. Merged rule by rule where matches are equal.
    Routes,
    /// The first of `rules`, which has only `default`. Merged field by field.
    FirstRule,
}

/// Generic form of a policy spec.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Body {
    /// Top-level `targetRef`. `None` selects the whole mesh.
    pub target: Option<TargetRef>,
    pub to: Vec<Item>,
    pub from: Vec<Item>,
    pub rules: Vec<RuleItem>,
    /// Set for policies that have none of the lists.
    pub default: Option<Conf>,
}

/// An item of `to` or `from`.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub target: TargetRef,
    pub conf: Conf,
}

/// An item of `rules`. Without matches it applies to all callers.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleItem {
    pub matches: Vec<Match>,
    pub conf: Conf,
}

impl Body {
    /// Reads the stored spec of a policy. Fields that are not written override nothing.
    pub fn stored(kind: &Kind, text: &str) -> Result<Option<Self>, serde_json::Error> {
        let Some(facts) = &kind.policy else { return Ok(None) };
        let spec = written::mergeable((kind.language.complete)(text)?, &serde_json::from_str(text)?);
        Self::read(facts, &spec).map(Some)
    }

    /// Reads a spec that passed validation.
    pub fn read(facts: &PolicyFacts, spec: &Value) -> Result<Self, serde_json::Error> {
        let list = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten();
        let conf = |of: &Value| Conf::new(of.get("default").cloned().unwrap_or_else(|| Value::Object(<_>::default())));
        let to_conf = |of: &Value| match facts.conf {
            ConfShape::Default => conf(of),
            ConfShape::Routes => {
                let fields = ["hostnames", "rules"].into_iter();
                Conf::new(fields.filter_map(|field| Some((field, of.get(field)?.clone()))).collect())
            }
            ConfShape::FirstRule => Conf::new(of.pointer("/rules/0").cloned().unwrap_or_default()),
        };
        let target = |of: &Value| of.get("targetRef").map(|target| serde_json::from_value(target.clone())).transpose();
        let item = |of: &Value, conf: Conf| Ok(Item { target: target(of)?.unwrap_or_default(), conf });
        Ok(Self {
            target: target(spec)?,
            to: list("to").map(|of| item(of, to_conf(of))).collect::<Result<_, serde_json::Error>>()?,
            from: list("from").map(|of| item(of, conf(of))).collect::<Result<_, serde_json::Error>>()?,
            rules: list("rules")
                .map(|of| {
                    let matches = of.get("matches").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
                    Ok(RuleItem { matches: serde_json::from_value(matches)?, conf: conf(of) })
                })
                .collect::<Result<_, serde_json::Error>>()?,
            default: spec.get("default").cloned().map(Conf::new),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn later_confs_override_field_by_field() {
        for (confs, expected) in [
            (vec![], json!({})),
            (vec![json!({ "a": { "b": 1, "c": 2 }, "d": [1] }), json!({ "a": { "b": 3 }, "d": [2] })], {
                json!({ "a": { "b": 3, "c": 2 }, "d": [2] })
            }),
            (vec![json!({ "a": { "b": 1 } }), json!({ "a": null })], json!({})),
            (vec![json!({ "a": 1 }), json!({ "a": { "b": null, "c": 2 } })], json!({ "a": { "c": 2 } })),
            (vec![json!({ "x": { "appendMatch": [1, 2] } }), json!({ "x": { "appendMatch": [2, 3] } })], {
                json!({ "x": { "appendMatch": [1, 2, 2, 3] } })
            }),
        ] {
            let confs: Vec<Conf> = confs.into_iter().map(Conf::new).collect();
            assert_eq!(merge(&confs), Conf::new(expected), "{confs:?}");
        }
    }
}
