//! Hooks through which a policy changes Envoy's configuration; implemented in each policy folder.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kodiak_model::policy::{self, Body, Conf};
use kodiak_model::source_match::Match;
use kodiak_model::{BackendRef, Kind, TargetRef};

use crate::passthrough::PassthroughRules;
use crate::target::{Backends, Collector, Endpoints, Inbound, Outbound, ProxyFact, Tls, Upstream};

/// A policy that affects proxies. It changes the generated configuration through these hooks; the defaults leave it
/// unchanged.
///
/// The hooks of all policies are called in the order of [`kodiak_model::PolicyFacts::order`], on the same messages. No
/// policy reads another.
pub trait Policy: Sync {
    fn kind(&self) -> &'static Kind;

    /// Keys of the caller's tags and labels that an outbound conf reads: callers with different values get different endpoints.
    fn caller_tags(&self, _conf: &Conf) -> Vec<String> {
        Vec::new()
    }

    /// Destinations that a conf sends traffic to instead of, or in addition to, the one that it is for.
    fn backends(&self, _conf: &Conf) -> Vec<BackendRef> {
        Vec::new()
    }

    /// Clusters that the traffic of a destination with the cluster `own` gets to with a conf of a route, but for mirrors.
    fn clusters(&self, _conf: &Conf, own: &Arc<str>, _backends: &Backends) -> BTreeSet<Arc<str>> {
        BTreeSet::from([own.clone()])
    }

    /// Clusters that get copies of requests with a conf of a route.
    fn mirrors(&self, _conf: &Conf, _backends: &Backends) -> BTreeSet<Arc<str>> {
        BTreeSet::new()
    }

    /// Whether requests are redirected with a conf of a route, so that the proxy itself answers.
    fn redirects(&self, _conf: &Conf) -> bool {
        false
    }

    /// Callers that a conf of `rules` names, each with its path in the conf.
    fn callers(&self, _conf: &Conf) -> Vec<(String, Match)> {
        Vec::new()
    }

    /// Names of the routes that a conf creates: other policies may have confs for each of them.
    fn routes(&self, _conf: &Conf) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Whether it applies only to callers with certificates: an inbound without mTLS gets no entries of it.
    fn needs_mtls(&self) -> bool {
        false
    }

    /// Whether it applies only to proxies with transparent proxying.
    fn needs_transparent_proxying(&self) -> bool {
        false
    }

    /// For kinds with one conf for the whole proxy: whether it applies to each inbound and outbound. Then
    /// [`inbound`](Self::inbound) gets one entry, and [`outbound`](Self::outbound) the conf.
    fn applies_to_all_traffic(&self) -> bool {
        false
    }

    /// Facts about the proxy that the configuration of an inbound or outbound with this conf contains.
    fn proxy_facts(&self, _conf: &Conf) -> BTreeSet<ProxyFact> {
        BTreeSet::new()
    }

    /// Collectors that the configuration of an inbound or outbound with this conf references.
    fn collectors(&self, _conf: &Conf) -> Vec<Collector> {
        Vec::new()
    }

    /// Whether of several `rules` for all callers only the merged conf applies. Otherwise each of them applies on its own.
    fn merges_rules(&self) -> bool {
        self.kind().policy.is_some_and(|facts| facts.from_as_rules)
    }

    /// Whether it changes TLS between proxies, and no other part of inbounds.
    fn configures_tls(&self) -> bool {
        false
    }

    /// Changes TLS between proxies: of an inbound, with its entries, or of the outbounds of a proxy, with all entries that
    /// select the proxy. Called only when [`configures_tls`](Self::configures_tls) is true.
    fn tls(&self, _entries: &[Entry], _tls: &mut Tls) {}

    /// Whether [`outbound`](Self::outbound) is also called for connections to addresses without an outbound, with the conf of
    /// the `to` items for the whole mesh.
    fn applies_to_passthrough(&self) -> bool {
        false
    }

    /// For kinds with one conf for the whole proxy: destinations outside the mesh that it lets its application reach.
    fn passthrough(&self, _conf: &Conf) -> Option<PassthroughRules> {
        None
    }

    /// Changes an inbound and the cluster of its application. Called for every inbound, also without entries.
    fn inbound(&self, _entries: &[Entry], _inbound: &mut Inbound<'_>) {}

    /// Changes the outbound side of a destination: routes or TCP proxy.
    fn outbound(&self, _confs: &Confs, _outbound: &mut Outbound<'_>) {}

    /// Changes the cluster of a destination.
    fn cluster(&self, _conf: &Conf, _cluster: &mut Upstream) {}

    /// Whether it changes the endpoints of destinations.
    fn places(&self) -> bool {
        false
    }

    /// Changes the endpoints of a destination. Called only when [`places`](Self::places) is true.
    fn endpoints(&self, _conf: &Conf, _endpoints: &mut Endpoints) {}
}

/// Conf of one policy item for an inbound. Entries come in ascending precedence.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// KRI of the policy.
    pub policy: Arc<str>,
    pub source: Source,
    pub conf: Conf,
}

impl Entry {
    /// Items of a policy with this KRI: `rules`, or `from` in policies without them.
    pub fn of(policy: &Arc<str>, body: &Body) -> Vec<Self> {
        let entry = |source, conf| Self { policy: policy.clone(), source, conf };
        if body.rules.is_empty() {
            return body.from.iter().map(|item| entry(Source::From(item.target.clone()), item.conf.clone())).collect();
        }
        body.rules.iter().map(|rule| entry(Source::Matches(rule.matches.clone()), rule.conf.clone())).collect()
    }
}

impl Eq for Entry {}

impl Hash for Entry {
    /// The source is only compared, not hashed: entries that differ in nothing else are rare.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { policy, source: _, conf } = self;
        policy.hash(state);
        conf.hash(state);
    }
}

/// Callers that an entry applies to.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// An item of `from`.
    From(TargetRef),
    /// An item of `rules`. All callers when there are no matches.
    Matches(Vec<Match>),
}

impl Source {
    /// For kinds whose `from` does not select callers.
    fn is_all_callers(&self) -> bool {
        match self {
            Self::From(_) => true,
            Self::Matches(matches) => matches.is_empty(),
        }
    }
}

/// Merged conf of the entries that apply to all callers.
pub(crate) fn for_everybody(entries: &[Entry]) -> Conf {
    policy::merge(entries.iter().filter(|entry| entry.source.is_all_callers()).map(|entry| &entry.conf))
}

/// Merged confs of one policy kind for one destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Confs {
    /// For the destination as a whole.
    pub whole: Option<Conf>,
    /// By route name, only for routes whose conf differs from the whole destination's.
    pub routes: BTreeMap<Arc<str>, Conf>,
}

impl Confs {
    pub fn of_route(&self, name: &str) -> Option<&Conf> {
        self.routes.get(name).or(self.whole.as_ref())
    }
}
