//! Selects resources by their labels.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Labels;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that a resource must carry, with exactly these values. An empty selector matches all resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

impl LabelSelector {
    pub fn matches(&self, labels: &Labels) -> bool {
        self.match_labels.iter().flatten().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// A matching selector with more labels overrides one with fewer.
    pub fn specificity(&self) -> usize {
        self.match_labels.as_ref().map_or(0, BTreeMap::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_label_must_match() {
        let selector = LabelSelector { match_labels: Some(labels(&[("app", "web"), ("tier", "front")])) };
        assert!(selector.matches(&labels(&[("app", "web"), ("tier", "front"), ("more", "x")])));
        assert!(!selector.matches(&labels(&[("app", "web")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "back")])));
        assert!(LabelSelector::default().matches(&labels(&[])));
    }
}
