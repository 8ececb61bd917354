//! Number of passed cases per suite, now and as committed in `conformance.json`.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// Counts of the runner: `{ "suite": { "passed": 1, "failed": 2, "skipped": 3 } }`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Counts(BTreeMap<String, Suite>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
struct Suite {
    passed: u64,
    failed: u64,
    skipped: u64,
}

/// Minimum of cases that must pass: `{ "suite": 1 }`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Committed(BTreeMap<String, u64>);

impl Counts {
    pub(super) fn from_json(text: &str) -> Result<Self> {
        serde_json::from_str(text).context("cannot read the counts of the conformance runner")
    }

    pub(super) fn summary(&self) -> String {
        let sum = |field: fn(&Suite) -> u64| self.0.values().map(field).sum::<u64>();
        let (passed, failed, skipped) = (sum(|s| s.passed), sum(|s| s.failed), sum(|s| s.skipped));
        format!("{passed} passed, {failed} failed, {skipped} skipped")
    }

    fn passed(&self, suite: &str) -> u64 {
        self.0.get(suite).map_or(0, |suite| suite.passed)
    }
}

impl Committed {
    pub(super) fn from_json(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    pub(super) fn to_json(&self) -> Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// A line for each suite with fewer passed cases than committed. A missing suite has none.
    pub(super) fn fallen(&self, counts: &Counts) -> Vec<String> {
        let fallen = self.0.iter().filter(|(suite, least)| counts.passed(suite) < **least);
        fallen.map(|(suite, least)| format!("{suite}: {} instead of {least}", counts.passed(suite))).collect()
    }

    /// A line for each suite with more passed cases than committed.
    pub(super) fn risen(&self, counts: &Counts) -> Vec<String> {
        let before = |suite: &str| self.0.get(suite).copied().unwrap_or_default();
        let risen = counts.0.iter().filter(|(suite, now)| now.passed > before(suite));
        risen.map(|(suite, now)| format!("{suite}: {} instead of {}", now.passed, before(suite))).collect()
    }
}

impl From<&Counts> for Committed {
    fn from(counts: &Counts) -> Self {
        let passing = counts.0.iter().filter(|(_, now)| now.passed > 0);
        Self(passing.map(|(suite, now)| (suite.clone(), now.passed)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts() -> Counts {
        let json = r#"{
            "api": {"passed": 3, "failed": 1, "skipped": 1},
            "later": {"passed": 0, "failed": 0, "skipped": 1},
            "rules": {"passed": 5, "failed": 0, "skipped": 0}
        }"#;
        Counts::from_json(json).unwrap()
    }

    #[test]
    fn fewer_than_committed_is_a_fall() {
        let committed = Committed::from_json(r#"{ "api": 4, "gone": 1, "rules": 5 }"#).unwrap();
        assert_eq!(committed.fallen(&counts()), ["api: 3 instead of 4", "gone: 0 instead of 1"]);
        assert!(committed.risen(&counts()).is_empty());
    }

    #[test]
    fn more_than_committed_asks_to_be_saved() {
        let committed = Committed::from_json(r#"{ "rules": 4 }"#).unwrap();
        assert!(committed.fallen(&counts()).is_empty());
        assert_eq!(committed.risen(&counts()), ["api: 3 instead of 0", "rules: 5 instead of 4"]);
    }

    #[test]
    fn what_is_saved_is_read_back() {
        let committed = Committed::from(&counts());
        assert_eq!(committed.to_json().unwrap(), "{\n  \"api\": 3,\n  \"rules\": 5\n}\n");
        assert_eq!(Committed::from_json(&committed.to_json().unwrap()).unwrap(), committed);
        assert_eq!(counts().summary(), "8 passed, 1 failed, 2 skipped");
    }
}
