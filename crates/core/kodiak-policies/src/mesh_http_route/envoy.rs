//! Generates the routes of one destination.

mod covers;
mod filters;
mod matches;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, sync::Arc};

use kodiak_envoy::envoy::config::route::v3::route_action::{ClusterSpecifier, HostRewriteSpecifier};
use kodiak_envoy::envoy::config::route::v3::weighted_cluster::ClusterWeight;
use kodiak_envoy::envoy::config::route::v3::{RedirectAction, Route, RouteAction, WeightedCluster, route};
use kodiak_model::{BackendRef, Protocol, route_hash};
use serde::Deserialize;

use self::covers::Conditions;
use super::{Filter, Match, Rule, RuleConf};
use crate::routes::{Split, splits};
use crate::target::{Backend, BackendKey, Backends, Carrier, Outbound};

/// Merged rules of all policies for one destination, in descending precedence.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Rules {
    rules: Vec<Rule>,
}

impl Rules {
    /// Includes the backends of request mirrors.
    pub(super) fn backends(&self) -> Vec<BackendRef> {
        let destinations = self.rules.iter().flat_map(|rule| rule.default.backend_refs.iter().flatten());
        destinations.chain(self.mirrored()).cloned().collect()
    }

    /// Clusters of the request mirrors.
    pub(super) fn mirrors(&self, backends: &Backends) -> BTreeSet<Arc<str>> {
        let keys = self.mirrored().filter_map(BackendKey::of);
        keys.filter_map(|key| Some(backends.0.get(&key)?.cluster.clone())).collect()
    }

    fn mirrored(&self) -> impl Iterator<Item = &BackendRef> {
        self.filters().filter_map(|filter| Some(&filter.request_mirror.as_ref()?.backend_ref))
    }

    pub(super) fn redirects(&self) -> bool {
        self.filters().any(filters::is_redirect)
    }

    fn filters(&self) -> impl Iterator<Item = &Filter> {
        self.rules.iter().flat_map(|rule| rule.default.filters.iter().flatten())
    }

    pub(super) fn names(&self) -> Vec<Arc<str>> {
        self.rules.iter().map(|rule| name(&rule.matches).into()).collect()
    }

    /// Inserts the routes before the catch-all route. A rule that matches everything replaces the catch-all route, even
    /// when none of the rule's backends exist: its requests must not go to a backend that it does not list.
    pub(super) fn apply(&self, outbound: &mut Outbound<'_>) {
        let Carrier::Http(http) = &mut outbound.carrier else { return };
        let Some(catch_all) = http.routes.pop() else { return };
        for (rule, one) in self.matches() {
            http.routes.extend(routes(rule, one, &catch_all, outbound.backends));
        }
        if !self.replaces_catch_all() {
            http.routes.push(catch_all);
        }
    }

    /// Clusters that requests of a destination with the cluster `own` get to, but for mirrors: those of the routes that
    /// [`apply`](Self::apply) inserts and that no route before them hides.
    pub(super) fn clusters(&self, own: &Arc<str>, backends: &Backends) -> BTreeSet<Arc<str>> {
        let (mut clusters, mut earlier) = (BTreeSet::new(), Vec::new());
        let everything = Match::default();
        for (rule, one) in self.matches() {
            let Some(conditions) = Conditions::of(one) else { continue };
            let destinations = destinations(&rule.default, own, backends);
            if let Some(destinations) = destinations {
                if !conditions.is_taken(&earlier) {
                    clusters.extend(destinations);
                }
                earlier.push(conditions);
            }
        }
        let rest = Conditions::of(&everything).filter(|_| !self.replaces_catch_all());
        if rest.is_some_and(|rest| !rest.is_taken(&earlier)) {
            clusters.insert(own.clone());
        }
        clusters
    }

    /// In the order of their routes.
    fn matches(&self) -> Vec<(&Rule, &Match)> {
        let mut matches: Vec<(&Rule, &Match)> =
            self.rules.iter().flat_map(|rule| rule.matches.iter().map(move |one| (rule, one))).collect();
        matches.sort_by_key(|(_, one)| matches::rank(one));
        matches
    }

    fn replaces_catch_all(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.matches).any(matches::is_catch_all)
    }
}

/// Clusters of the requests of a rule. `None` when no backend exists, so that there is no route.
fn destinations(conf: &RuleConf, own: &Arc<str>, backends: &Backends) -> Option<Vec<Arc<str>>> {
    let RuleConf { filters, backend_refs } = conf;
    if filters.iter().flatten().any(filters::is_redirect) {
        return Some(Vec::new());
    }
    let written = backend_refs.as_deref().unwrap_or_default();
    if written.is_empty() {
        return Some(vec![own.clone()]);
    }
    let clusters: Vec<Arc<str>> =
        http_splits(written, backends).into_iter().map(|split| split.backend.cluster.clone()).collect();
    (!clusters.is_empty()).then_some(clusters)
}

fn http_splits<'a>(written: &[BackendRef], backends: &'a Backends) -> Vec<Split<'a>> {
    splits(written, backends).into_iter().filter(|split| speaks_http(split.backend)).collect()
}

/// Hash of the rule's matches, which identifies the route in policies, metrics and access logs.
fn name(matches: &[Match]) -> String {
    route_hash(&serde_json::to_value(matches).expect("matches are made of strings"))
}

/// Routes of one match. Empty when no backend exists.
fn routes(rule: &Rule, one: &Match, catch_all: &Route, backends: &Backends) -> Vec<Route> {
    let RuleConf { filters, backend_refs } = &rule.default;
    let filters = filters.as_deref().unwrap_or_default();
    let action = if filters.iter().any(filters::is_redirect) {
        route::Action::Redirect(RedirectAction::default())
    } else {
        match forward(backend_refs.as_deref().unwrap_or_default(), catch_all, backends) {
            Some(action) => route::Action::Route(action),
            None => return Vec::new(),
        }
    };
    let route = Route { name: name(&rule.matches), action: Some(action), ..Route::default() };
    let for_match = |matched| {
        let mut route = Route { r#match: Some(matched), ..route.clone() };
        for filter in filters {
            filters::apply(filter, &mut route, backends);
        }
        route
    };
    matches::of(one).into_iter().map(for_match).collect()
}

/// Copies timeouts from the catch-all route, and its destination when the rule has no backends.
fn forward(written: &[BackendRef], catch_all: &Route, backends: &Backends) -> Option<RouteAction> {
    let Some(route::Action::Route(own)) = &catch_all.action else { return None };
    if written.is_empty() {
        return Some(own.clone());
    }
    let splits = http_splits(written, backends);
    let external = splits.iter().any(|split| split.backend.external);
    let cluster_specifier = match splits.as_slice() {
        [] => return None,
        [Split { backend, .. }] => ClusterSpecifier::Cluster(backend.cluster.to_string()),
        several => ClusterSpecifier::WeightedClusters(WeightedCluster {
            clusters: several.iter().map(cluster_weight).collect(),
            ..WeightedCluster::default()
        }),
    };
    Some(RouteAction {
        cluster_specifier: Some(cluster_specifier),
        host_rewrite_specifier: external.then_some(HostRewriteSpecifier::AutoHostRewrite(true)),
        ..own.clone()
    })
}

fn cluster_weight(split: &Split<'_>) -> ClusterWeight {
    ClusterWeight { name: split.backend.cluster.to_string(), weight: Some(split.weight), ..ClusterWeight::default() }
}

fn speaks_http(backend: &Backend) -> bool {
    match backend.protocol {
        Protocol::Grpc | Protocol::Http | Protocol::Http2 => true,
        Protocol::Kafka | Protocol::Mysql | Protocol::Tcp | Protocol::Tls => false,
    }
}
