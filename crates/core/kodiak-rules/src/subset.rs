//! Rules by tags: for callers (`from`), for `kuma.io/service` destinations (`to`), and for whole proxies.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::Conf;

use crate::{Policy, Resources};

/// Stands beside `kuma.io/service` for a route of that service.
pub const ROUTE_HASH: &str = "__rule-matches-hash__";

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    pub key: String,
    pub value: String,
    pub not: bool,
}

/// What holds for everything that has these tags.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub subset: Vec<Tag>,
    pub conf: Conf,
    /// Weakest first.
    pub origins: Vec<Arc<Policy>>,
    /// Of routes: by the hash of the matches.
    pub by_matches: BTreeMap<String, Arc<Policy>>,
}

/// Why there are no rules.
#[derive(Debug, Clone, PartialEq)]
pub enum Trouble {
    /// More combinations of tags than anybody can look at.
    TooMany { policies: Vec<Arc<Policy>>, combinations: usize },
    /// What these mean cannot be said with tags, or leads nowhere. In Kuma's words.
    Unfit(String),
}

/// For callers, with negations. Policies weakest first.
pub fn from(policies: &[Arc<Policy>]) -> Result<Vec<Rule>, Trouble> {
    todo!()
}

/// For destinations by `kuma.io/service`. Policies weakest first.
pub fn to(policies: &[Arc<Policy>], resources: &Resources) -> Result<Vec<Rule>, Trouble> {
    todo!()
}

/// For the proxy as a whole. Policies weakest first.
pub fn single(policies: &[Arc<Policy>]) -> Option<Rule> {
    todo!()
}

/// The first rule that is about something with these tags.
pub fn find<'a>(rules: &'a [Rule], tags: &[(&str, &str)]) -> Option<&'a Rule> {
    todo!()
}
