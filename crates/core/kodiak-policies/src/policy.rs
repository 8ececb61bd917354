//! What a policy does to Envoy's configuration: one implementation in each folder.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kodiak_model::policy::{self, Conf};
use kodiak_model::source_match::Match;
use kodiak_model::{BackendRef, Kind, TargetRef};

use crate::target::{Endpoints, Inbound, Outbound, Upstream};

/// A policy that is in force: how it changes what would be there without it. What a policy does not touch it leaves to
/// the defaults below.
///
/// All of them are called in the order of [`kodiak_model::PolicyFacts::order`], on the same things. None looks at another.
pub trait Policy: Sync {
    fn kind(&self) -> &'static Kind;

    /// The keys of the caller's tags that a conf for destinations looks at: callers that differ in them get different
    /// endpoints.
    fn caller_tags(&self, _conf: &Conf) -> Vec<String> {
        Vec::new()
    }

    /// The destinations that a conf sends calls to instead of, or beside, the one that it is for.
    fn backends(&self, _conf: &Conf) -> Vec<BackendRef> {
        Vec::new()
    }

    /// The names of the routes that a conf makes: other policies may have confs for each of them.
    fn routes(&self, _conf: &Conf) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Whether it acts only on callers with certificates: then nothing is said of it where there are none.
    fn needs_mtls(&self) -> bool {
        false
    }

    /// What comes in at an inbound, and the workload behind it. Called for every inbound, also without entries.
    fn inbound(&self, _entries: &[Entry], _inbound: &mut Inbound<'_>) {}

    /// Where a destination is called.
    fn outbound(&self, _confs: &Confs, _outbound: &mut Outbound<'_>) {}

    /// The destination as it is called.
    fn cluster(&self, _conf: &Conf, _cluster: &mut Upstream) {}

    /// Whether it has something to say about who serves a destination.
    fn places(&self) -> bool {
        false
    }

    /// Who serves the destination. Called only when it [`places`](Self::places).
    fn endpoints(&self, _conf: &Conf, _endpoints: &mut Endpoints) {}
}

/// What one item of a policy says about an inbound. They come weakest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The KRI of the policy.
    pub policy: Arc<str>,
    pub source: Source,
    pub conf: Conf,
}

impl Eq for Entry {}

impl Hash for Entry {
    /// Who it is about is compared only: entries that differ in nothing else are rare.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { policy, source: _, conf } = self;
        policy.hash(state);
        conf.hash(state);
    }
}

/// The callers that an entry is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// An item of `from`.
    From(TargetRef),
    /// An item of `rules`. Everybody when there are no matches.
    Matches(Vec<Match>),
}

impl Source {
    /// For kinds whose `from` has no callers to choose from.
    fn is_everybody(&self) -> bool {
        match self {
            Self::From(_) => true,
            Self::Matches(matches) => matches.is_empty(),
        }
    }
}

/// What is said for all callers alike, merged.
pub(crate) fn for_everybody(entries: &[Entry]) -> Conf {
    policy::merge(entries.iter().filter(|entry| entry.source.is_everybody()).map(|entry| &entry.conf))
}

/// What a kind of policy says about one destination, merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Confs {
    /// For the destination as a whole.
    pub whole: Option<Conf>,
    /// For its routes, by their names, where it is not what is said for the whole.
    pub routes: BTreeMap<Arc<str>, Conf>,
}

impl Confs {
    pub fn of_route(&self, name: &str) -> Option<&Conf> {
        self.routes.get(name).or(self.whole.as_ref())
    }
}
