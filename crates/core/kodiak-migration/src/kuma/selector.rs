//! Selectors of legacy policies, and their form as `targetRef`.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value, json};

const SERVICE: &str = "kuma.io/service";
const ANY: &str = "*";

pub(super) type Tags = BTreeMap<String, String>;

/// Tags that proxies or destinations must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Selector {
    /// `kuma.io/service: '*'`
    All,
    /// A value of `kuma.io/service`.
    Service(String),
    /// A value of `kuma.io/service`, and further tags.
    ServiceSubset(String, Tags),
    /// Tags without a value of `kuma.io/service`, and whether `kuma.io/service: '*'` is written.
    Subset(Tags, bool),
}

/// Specificity as Kuma compares it: number of tags, then number of tags without a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Rank {
    tags: usize,
    exact: usize,
}

impl std::ops::Add for Rank {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { tags: self.tags + other.tags, exact: self.exact + other.exact }
    }
}

impl Selector {
    /// Reads `{match: {…}}`.
    pub(super) fn read(selector: &Value) -> Result<Self, String> {
        let Some(Value::Object(matched)) = selector.get("match") else {
            return Err("a selector without `match` selects nothing".to_owned());
        };
        Self::of(matched)
    }

    pub(super) fn of(matched: &Map<String, Value>) -> Result<Self, String> {
        let mut tags = Tags::new();
        for (key, value) in matched {
            let Value::String(value) = value else { return Err(format!("the tag {key:?} is not a text")) };
            tags.insert(key.clone(), value.clone());
        }
        let service = tags.remove(SERVICE);
        if let Some((key, _)) = tags.iter().find(|(_, value)| *value == ANY) {
            return Err(format!("it selects every value of the tag {key:?}, and a targetRef cannot"));
        }
        Ok(match (service, tags.is_empty()) {
            (Some(service), true) if service == ANY => Self::All,
            (Some(service), false) if service == ANY => Self::Subset(tags, true),
            (Some(service), true) => Self::Service(service),
            (Some(service), false) => Self::ServiceSubset(service, tags),
            (None, false) => Self::Subset(tags, false),
            (None, true) => return Err("a selector without tags selects nothing".to_owned()),
        })
    }

    pub(super) fn target_ref(&self) -> Value {
        match self {
            Self::All => json!({ "kind": "Mesh" }),
            Self::Service(name) => json!({ "kind": "MeshService", "name": name }),
            Self::ServiceSubset(name, tags) => json!({ "kind": "MeshServiceSubset", "name": name, "tags": tags }),
            Self::Subset(tags, _) => json!({ "kind": "MeshSubset", "tags": tags }),
        }
    }

    pub(super) fn rank(&self) -> Rank {
        match self {
            Self::All => Rank { tags: 1, exact: 0 },
            Self::Service(_) => Rank { tags: 1, exact: 1 },
            Self::ServiceSubset(_, tags) => Rank { tags: tags.len() + 1, exact: tags.len() + 1 },
            Self::Subset(tags, wildcard) => Rank { tags: tags.len() + usize::from(*wildcard), exact: tags.len() },
        }
    }

    /// Precedence of its `targetRef` at the top of a policy.
    pub(super) fn precedence(&self) -> u8 {
        match self {
            Self::All => 0,
            Self::Subset(..) => 1,
            Self::Service(_) => 2,
            Self::ServiceSubset(..) => 3,
        }
    }

    /// Whether one set of tags can have both.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let (one, other) = (self.tags(), other.tags());
        one.iter().all(|(key, value)| other.get(key).is_none_or(|other| other == value))
    }

    pub(super) fn matches(&self, tags: &Tags) -> bool {
        self.tags().iter().all(|(key, value)| tags.get(*key).is_some_and(|tag| tag == value))
    }

    pub(super) fn service(&self) -> Option<&str> {
        match self {
            Self::Service(name) | Self::ServiceSubset(name, _) => Some(name),
            Self::All | Self::Subset(..) => None,
        }
    }

    /// All tags with a value.
    fn tags(&self) -> BTreeMap<&str, &str> {
        let more = match self {
            Self::All | Self::Service(_) => None,
            Self::ServiceSubset(_, tags) | Self::Subset(tags, _) => Some(tags),
        };
        let more = more.into_iter().flatten().map(|(key, value)| (key.as_str(), value.as_str()));
        self.service().map(|name| (SERVICE, name)).into_iter().chain(more).collect()
    }
}

/// `kuma.io/service=web version=1`
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tags = self.tags();
        if tags.is_empty() {
            return write!(f, "{SERVICE}={ANY}");
        }
        let shown: Vec<_> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
        f.write_str(&shown.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(tags: &Value) -> Result<Selector, String> {
        Selector::read(&json!({ "match": tags }))
    }

    #[test]
    fn tags_become_target_refs() {
        for (tags, expected) in [
            (json!({ "kuma.io/service": "*" }), json!({ "kind": "Mesh" })),
            (json!({ "kuma.io/service": "web" }), json!({ "kind": "MeshService", "name": "web" })),
            (
                json!({ "kuma.io/service": "web", "version": "1" }),
                json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "version": "1" } }),
            ),
            (
                json!({ "kuma.io/service": "*", "version": "1" }),
                json!({ "kind": "MeshSubset", "tags": { "version": "1" } }),
            ),
        ] {
            assert_eq!(selector(&tags).unwrap().target_ref(), expected, "{tags}");
        }
    }

    #[test]
    fn rejects_wildcards_of_other_tags() {
        let error = selector(&json!({ "kuma.io/service": "*", "version": "*" })).unwrap_err();
        assert!(error.contains("version"), "{error}");
        assert!(selector(&json!({})).is_err() && Selector::read(&json!({})).is_err());
    }

    #[test]
    fn more_tags_are_more_specific() {
        let rank = |tags: Value| selector(&tags).unwrap().rank();
        let all = rank(json!({ "kuma.io/service": "*" }));
        let service = rank(json!({ "kuma.io/service": "web" }));
        let subset = rank(json!({ "kuma.io/service": "*", "version": "1" }));
        let both = rank(json!({ "kuma.io/service": "web", "version": "1" }));
        assert!(all < service && service < subset && subset < both);
    }

    #[test]
    fn different_values_of_a_tag_do_not_overlap() {
        let read = |tags: Value| selector(&tags).unwrap();
        let web = read(json!({ "kuma.io/service": "web" }));
        assert!(web.overlaps(&read(json!({ "kuma.io/service": "*" }))));
        assert!(web.overlaps(&read(json!({ "version": "1" }))));
        assert!(!web.overlaps(&read(json!({ "kuma.io/service": "api" }))));
    }
}
