//! Matching by tags.

use std::collections::BTreeMap;

/// Several maps of tags as one: the first that has a key wins.
pub(crate) struct Tags<'a>(pub &'a [&'a BTreeMap<String, String>]);

impl Tags<'_> {
    /// `*` matches any value, but the tag must exist.
    pub(crate) fn has(&self, key: &str, value: &str) -> bool {
        self.0.iter().find_map(|tags| tags.get(key)).is_some_and(|tag| value == "*" || tag == value)
    }

    pub(crate) fn have_all(&self, wanted: &BTreeMap<String, String>) -> bool {
        wanted.iter().all(|(key, value)| self.has(key, value))
    }
}
