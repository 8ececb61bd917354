//! HTTP headers in policies: matches and modifications.

use std::collections::BTreeSet;

use kodiak_model::{Choice, FieldPath, Problems, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::regex;

/// HTTP/2 allows no upper case letters.
pub(crate) const NAME_PATTERN: &str = r"^[a-z0-9!#$%&'*+\-.^_\x60|~]+$";

words! {
    pub enum HeaderMatchType {
        Exact = "Exact",
        Present = "Present",
        RegularExpression = "RegularExpression",
        Absent = "Absent",
        Prefix = "Prefix",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct HeaderMatch {
    /// How the value is compared. Exact by default.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<HeaderMatchType>>,
    /// Name of the header, in lower case.
    #[schemars(length(min = 1, max = 256), regex(pattern = NAME_PATTERN))]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
}

impl Default for HeaderMatch {
    fn default() -> Self {
        Self { match_type: Some(HeaderMatchType::Exact.into()), name: String::new(), value: String::new() }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name", "value"]))]
pub struct HeaderKeyValue {
    /// Name of the header, in lower case.
    #[schemars(length(min = 1, max = 256), regex(pattern = NAME_PATTERN))]
    pub name: String,
    /// Separate several values by commas.
    pub value: String,
}

/// Headers to set or to add.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderAdditions {
    /// Replaces existing values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub set: Option<Vec<HeaderKeyValue>>,
    /// Appends to existing values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub add: Option<Vec<HeaderKeyValue>>,
}

/// Headers to set, add or remove. A header may be listed once.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct HeaderModifier {
    /// Replaces existing values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub set: Option<Vec<HeaderKeyValue>>,
    /// Appends to existing values.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub add: Option<Vec<HeaderKeyValue>>,
    /// Names of headers to remove.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16))]
    pub remove: Option<Vec<String>>,
}

impl HeaderMatch {
    pub(crate) fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        if let Some(match_type) = &self.match_type {
            match_type.check(at, "type", problems);
            if match_type.is(HeaderMatchType::RegularExpression) {
                regex::check(&self.value, &at.field("value"), problems);
            }
        }
    }

    /// Whether only the presence of the header matters.
    pub(crate) fn ignores_value(&self) -> bool {
        self.match_type.as_ref().is_some_and(|one| one.is(HeaderMatchType::Present) || one.is(HeaderMatchType::Absent))
    }
}

impl HeaderModifier {
    pub(crate) fn check(&self, at: &FieldPath<'_>, problems: &mut Problems) {
        let Self { set, add, remove } = self;
        if set.is_none() && add.is_none() && remove.is_none() {
            problems.add(at, "must have at least one defined: set, add, remove");
        }
        let mut seen = BTreeSet::new();
        for (field, headers) in [("set", set), ("add", add)] {
            let names = headers.iter().flatten().map(|header| header.name.as_str());
            check_repeats(names, &mut seen, &at.field(field), problems);
        }
        let names = remove.iter().flatten().map(String::as_str);
        check_repeats(names, &mut seen, &at.field("remove"), problems);
    }
}

/// `name` is in the path even for `remove`, whose items are plain strings: the paths are Kuma's.
fn check_repeats<'a>(
    names: impl Iterator<Item = &'a str>,
    seen: &mut BTreeSet<&'a str>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    for (n, name) in names.enumerate() {
        if !seen.insert(name) {
            problems.add(&at.index(n).field("name"), "duplicate header name");
        }
    }
}
