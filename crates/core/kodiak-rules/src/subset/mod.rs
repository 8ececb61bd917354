//! Rules by tags: for callers (`from`), for `kuma.io/service` destinations (`to`), and for whole proxies.
//!
//! ```text
//!  items --> pieces: tags and a conf --> groups of compatible pieces --> combinations of their tags --> rules
//! ```
//!
//! The first rule that matches applies, so the list starts with the most specific ones.

mod build;
mod error;
mod groups;
mod pieces;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::{Conf, ConfShape};

pub use error::{RuleError, explodes};

use crate::{Policy, Resources, merge};

/// Tag beside `kuma.io/service` for a route of that service.
pub const ROUTE_HASH: &str = "__rule-matches-hash__";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    pub key: String,
    pub value: String,
    pub not: bool,
}

/// Merged confs for everything with these tags.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub subset: Vec<Tag>,
    pub conf: Conf,
    /// In ascending precedence.
    pub origins: Vec<Arc<Policy>>,
    /// Of routes: by the hash of the matches.
    pub by_matches: BTreeMap<String, Arc<Policy>>,
}

/// For callers, with negations. Policies of one kind, in ascending precedence.
pub fn from(policies: &[Arc<Policy>]) -> Result<Vec<Rule>, RuleError> {
    let pieces = pieces::from(policies)?;
    let rules = build::rules(&pieces, ConfShape::Default, build::Negations::Always);
    rules.map_err(|combinations| error::too_many(policies, combinations, error::count_from))
}

/// For destinations by `kuma.io/service`. Policies of one kind, in ascending precedence.
pub fn to(policies: &[Arc<Policy>], resources: &Resources) -> Result<Vec<Rule>, RuleError> {
    let pieces = pieces::to(policies, Some(resources))?;
    let rules = build::rules(&pieces, shape_of(policies), build::Negations::WhereNeeded);
    let count = |policies: &[Arc<Policy>]| error::count_to(policies, Some(resources));
    rules.map_err(|combinations| error::too_many(policies, combinations, count))
}

/// Merged rule of all items that match one caller. Unlike the first rule of the list, which can be of a group without
/// some of the items, this is exact, and there are never too many combinations.
pub fn for_caller(policies: &[Arc<Policy>], tags: &[(&str, &str)]) -> Result<Option<Rule>, RuleError> {
    Ok(build::at(&pieces::from(policies)?, ConfShape::Default, tags).pop())
}

/// Like [`for_caller`], for a destination. Several for routes with hostnames.
pub fn for_destination(
    policies: &[Arc<Policy>],
    resources: &Resources,
    tags: &[(&str, &str)],
) -> Result<Vec<Rule>, RuleError> {
    Ok(build::at(&pieces::to(policies, Some(resources))?, shape_of(policies), tags))
}

/// For the proxy as a whole. Policies of one kind, in ascending precedence.
pub fn single(policies: &[Arc<Policy>]) -> Option<Rule> {
    if policies.is_empty() {
        return None;
    }
    let conf = merge::patch(policies.iter().filter_map(|policy| policy.body.default.as_ref()));
    Some(Rule { subset: Vec::new(), conf, origins: policies.to_vec(), by_matches: BTreeMap::new() })
}

/// The first rule that matches these tags.
pub fn find<'a>(rules: &'a [Rule], tags: &[(&str, &str)]) -> Option<&'a Rule> {
    rules.iter().find(|rule| is_about(&rule.subset, tags))
}

fn shape_of(policies: &[Arc<Policy>]) -> ConfShape {
    policies.first().and_then(|policy| policy.kind.policy).map_or(ConfShape::Default, |facts| facts.conf)
}

/// Without tags, only rules for everything match.
fn is_about(subset: &[Tag], tags: &[(&str, &str)]) -> bool {
    let has = |tag: &Tag| tags.contains(&(tag.key.as_str(), tag.value.as_str()));
    subset.is_empty() || !tags.is_empty() && subset.iter().all(|tag| has(tag) != tag.not)
}
