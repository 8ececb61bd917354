//! The call graph of a mesh: who may call whom, and why.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use kodiak_model::Cancellation;
use kodiak_reachability::{Answer, SetId, Target, Yes};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::{Calls, Names, target_name, unsecured::Unsecured};
use crate::{near, why::WhyError};

/// All calls that permissions allow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallGraph {
    pub mesh: String,
    /// Number of clients, by their service.
    pub clients: usize,
    pub destinations: usize,
    pub edges: Vec<Edge>,
}

/// All of the clients may call all of the destinations, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Edge {
    pub clients: Names,
    pub destinations: Names,
    pub reason: EdgeReason,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum EdgeReason {
    /// KRI of the policy that allows the calls, at one inbound at least.
    Allowed { policy: String },
    /// No permission is enforced there.
    Open,
    /// The destination is unknown, so nothing speaks against it.
    Unknown,
}

/// A client or destination that the mesh does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    pub name: String,
    /// Names that are similar, the most similar first.
    pub suggestions: Vec<String>,
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, suggestions } = self;
        write!(f, "{name:?}")?;
        if suggestions.is_empty() { Ok(()) } else { write!(f, "; did you mean {}?", suggestions.join(" or ")) }
    }
}

impl EdgeReason {
    /// `None` when it is denied.
    pub fn of(answer: Answer) -> Option<Self> {
        match answer {
            Answer::Yes(Yes::Allowed { policy }) => Some(Self::Allowed { policy }),
            Answer::Yes(Yes::Open) => Some(Self::Open),
            Answer::Yes(Yes::Unknown) => Some(Self::Unknown),
            Answer::No(_) => None,
        }
    }
}

impl CallGraph {
    /// With a `client` (a service or a Dataplane) or a `destination`, only their edges.
    pub fn of(
        calls: &Calls,
        client: Option<&str>,
        destination: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Self, WhyError> {
        let Calls { mesh, graph, unsecured, clients, destinations } = calls;
        let names: BTreeMap<&Target, String> = destinations.iter().map(|one| (one, target_name(one))).collect();
        let wanted = destination
            .map(|wanted| calls.destinations_named(wanted))
            .transpose()
            .map_err(WhyError::UnknownDestination)?;
        let only = client.map(|client| calls.clients_named(client)).transpose().map_err(WhyError::UnknownClient)?;
        let mut edges: BTreeMap<(Names, EdgeReason), BTreeSet<&str>> = BTreeMap::new();
        for (set, members) in calls.callers(only.as_ref()) {
            cancellation.check()?;
            let Some(first) = members.min() else { continue };
            // Destinations of one set have the same callers; only those that admit everybody do so for other reasons.
            let mut by_reason: BTreeMap<EdgeReason, Vec<&Target>> = BTreeMap::new();
            let shown = graph.destinations_of(set).filter(|one| destinations.contains(one));
            for target in shown.filter(|one| wanted.as_ref().is_none_or(|wanted| wanted.contains(one))) {
                if let Some(reason) = EdgeReason::of(graph.may(clients.name(first), target)) {
                    by_reason.entry(reason).or_default().push(target);
                }
            }
            for some in by_reason.into_values() {
                let mut split: BTreeMap<EdgeReason, RoaringBitmap> = BTreeMap::new();
                for client in &members {
                    cancellation.check()?;
                    if let Some(reason) = EdgeReason::of(graph.may(clients.name(client), some[0])) {
                        split.entry(reason).or_default().insert(client);
                    }
                }
                for (reason, members) in split {
                    let more = some.iter().map(|one| names[one].as_str());
                    edges.entry((clients.names(&members), reason)).or_default().extend(more);
                }
            }
        }
        let mut classes: BTreeMap<Unsecured, RoaringBitmap> = BTreeMap::new();
        for (index, name) in clients.all().filter(|(index, _)| only.as_ref().is_none_or(|only| only.contains(*index))) {
            if let Some(class) = unsecured.class(name) {
                classes.entry(class).or_default().insert(index);
            }
        }
        for (class, members) in classes {
            cancellation.check()?;
            let shown = unsecured.targets(class).filter(|one| destinations.contains(one));
            let shown = shown.filter(|one| wanted.as_ref().is_none_or(|wanted| wanted.contains(one)));
            let mut shown = shown.map(|one| names[one].as_str()).peekable();
            if shown.peek().is_some() {
                edges.entry((clients.names(&members), EdgeReason::Open)).or_default().extend(shown);
            }
        }
        let edge = |((clients, reason), some): ((Names, EdgeReason), BTreeSet<&str>)| Edge {
            clients,
            destinations: Names::of(&some, names.values().map(String::as_str)),
            reason,
        };
        Ok(Self {
            mesh: mesh.clone(),
            clients: clients.services().count(),
            destinations: destinations.len(),
            edges: edges.into_iter().map(edge).collect(),
        })
    }
}

impl Calls {
    /// Clients of each set of destinations, but for those whose certificate decides about no call.
    fn callers(&self, only: Option<&RoaringBitmap>) -> BTreeMap<SetId, RoaringBitmap> {
        let mut sets: BTreeMap<SetId, RoaringBitmap> = BTreeMap::new();
        let wanted = |index: u32| only.is_none_or(|only| only.contains(index));
        let secured = self.clients.all().filter(|(_, name)| self.unsecured.class(name).is_none());
        for (index, name) in secured.filter(|(index, _)| wanted(*index)) {
            for set in self.graph.sets_of_client(name).unwrap_or_default() {
                sets.entry(set).or_default().insert(index);
            }
        }
        sets
    }

    fn clients_named(&self, name: &str) -> Result<RoaringBitmap, UnknownName> {
        let found = self.clients.named(name);
        if found.is_empty() {
            let all = self.clients.services().chain(self.clients.all().map(|(_, name)| &**name));
            return Err(UnknownName { name: name.to_owned(), suggestions: near::nearest(name, all) });
        }
        Ok(found)
    }

    /// By `kuma.io/service`, by KRI, or by the name of a resource in any zone.
    fn destinations_named(&self, name: &str) -> Result<BTreeSet<&Target>, UnknownName> {
        let is_meant = |target: &Target| match target {
            Target::Service(service) => **service == *name,
            Target::Object(kri) => kri.name == name || kri.to_string() == name,
        };
        let found: BTreeSet<&Target> = self.destinations.iter().filter(|target| is_meant(target)).collect();
        if found.is_empty() {
            let short = |target: &Target| match target {
                Target::Service(service) => service.to_string(),
                Target::Object(kri) => kri.name.clone(),
            };
            let all: BTreeSet<String> = self.destinations.iter().map(short).collect();
            let suggestions = near::nearest(name, all.iter().map(String::as_str));
            return Err(UnknownName { name: name.to_owned(), suggestions });
        }
        Ok(found)
    }
}
