//! Sets of names, as short as they can be written.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Names of clients, or of destinations.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", content = "names", rename_all = "camelCase")]
pub enum Names {
    All,
    AllExcept(Vec<String>),
    Only(Vec<String>),
}

impl Names {
    /// `some` of `all` names. With more than half of them, those that are missing.
    pub(super) fn of<'a>(some: &BTreeSet<&str>, all: impl ExactSizeIterator<Item = &'a str>) -> Self {
        if some.len() == all.len() {
            return Self::All;
        }
        if some.len() * 2 > all.len() {
            return Self::AllExcept(all.filter(|name| !some.contains(name)).map(str::to_owned).collect());
        }
        Self::Only(some.iter().map(|name| (*name).to_owned()).collect())
    }
}
