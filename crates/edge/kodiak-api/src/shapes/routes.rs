//! Routes of requests to a destination.

use kodiak_model::{Kri, policy::ConfShape};
use kodiak_rules::{
    Proxy,
    outbound::{self, Asked, ResourceRule},
    route_hash,
};
use serde::Serialize;
use serde_json::Value;

use kodiak_inspection::inspect::MeshView;

use super::origin::{Origin, entry_origins};

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Routes {
    pub(crate) routes: Vec<OfKind>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct OfKind {
    pub(crate) kind: &'static str,
    pub(crate) origins: Vec<Origin>,
    pub(crate) rules: Vec<RouteRule>,
}

#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct RouteRule {
    /// The policy that the rule is from. Empty when the rule has no matches: then it may be from several.
    pub(crate) kri: String,
    /// `None` matches all requests.
    pub(crate) matches: Option<Value>,
    pub(crate) conf: Value,
}

pub(crate) fn of_destination(view: &MeshView, proxy: &Proxy, destination: &Kri) -> Routes {
    let routes = view.in_force(proxy, |facts| facts.to && facts.conf != ConfShape::Default);
    let routes = routes.filter_map(|(kind, facts, matched)| {
        let rules = Asked::new(&matched.proxy, view.resolution()).rules(&view.resources);
        let rule = outbound::find(&rules, destination)?;
        let shown = if facts.conf == ConfShape::Routes { by_matches(rule) } else { whole(rule) };
        Some(OfKind { kind: kind.name, origins: entry_origins(&rule.origins), rules: shown })
    });
    Routes { routes: routes.collect() }
}

fn by_matches(rule: &ResourceRule) -> Vec<RouteRule> {
    let confs = rule.confs.iter().map(|conf| conf.json().get("rules").and_then(Value::as_array));
    let rules = confs.flatten().flatten();
    rules
        .map(|each| {
            let matches = each.get("matches").cloned();
            let origin = matches.as_ref().and_then(|matches| rule.by_matches.get(&route_hash(matches)));
            let kri = origin.map(|entry| entry.policy.kri().to_string()).unwrap_or_default();
            RouteRule { kri, matches, conf: default_of(each) }
        })
        .collect()
}

fn whole(rule: &ResourceRule) -> Vec<RouteRule> {
    let confs = rule.confs.iter();
    confs.map(|conf| RouteRule { kri: String::new(), matches: None, conf: default_of(conf.json()) }).collect()
}

fn default_of(rule: &Value) -> Value {
    rule.get("default").cloned().unwrap_or_else(|| Value::Object(<_>::default()))
}
