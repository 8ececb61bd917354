//! Calls that were allowed before a change, and are denied after it.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::{Cancellation, Cancelled};
use kodiak_reachability::{Answer, No, SetId, Target};
use roaring::RoaringBitmap;
use serde::{Deserialize, Serialize};

use super::{Calls, Names, target_name};

/// All calls that a change denies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCalls {
    pub calls: Vec<LostCall>,
}

/// None of the clients may call any of the destinations any more, for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostCall {
    pub clients: Names,
    pub destinations: Names,
    pub reason: LostReason,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum LostReason {
    /// KRI of the policy that denies it.
    Denied { policy: String },
    /// No policy of the destination allows it.
    NotAllowed,
    /// The servers accept no call with the TLS of the client's.
    Tls,
}

impl LostReason {
    /// `None` when it is allowed.
    pub fn of(answer: Answer) -> Option<Self> {
        match answer {
            Answer::No(No::Denied { policy }) => Some(Self::Denied { policy }),
            Answer::No(No::NotAllowed) => Some(Self::NotAllowed),
            Answer::No(No::RefusesPlaintext | No::RefusesMtls) => Some(Self::Tls),
            Answer::Yes(_) => None,
        }
    }
}

impl LostCalls {
    /// Clients and destinations that only one of the meshes has are left out: a deleted destination is not a matter of
    /// permissions.
    pub fn between(before: &Calls, after: &Calls, cancellation: &Cancellation) -> Result<Self, Cancelled> {
        let Calls { mesh: _, graph, clients, destinations } = after;
        // Destinations by their sets before and after the change.
        let mut moved: BTreeMap<SetId, BTreeMap<SetId, Vec<&Target>>> = BTreeMap::new();
        for target in destinations.intersection(&before.destinations) {
            if let (Some(old), Some(new)) = (before.graph.set_of(target), graph.set_of(target)) {
                moved.entry(old).or_default().entry(new).or_default().push(target);
            }
        }
        let mut losers: BTreeMap<(SetId, SetId), RoaringBitmap> = BTreeMap::new();
        for (index, name) in clients.all() {
            cancellation.check()?;
            let sets = (before.graph.sets_of_client(name), graph.sets_of_client(name));
            let (Some(old), Some(new)) = sets else { continue };
            let new: BTreeSet<SetId> = new.into_iter().collect();
            for from in old {
                let to = moved.get(&from).into_iter().flat_map(BTreeMap::keys).filter(|to| !new.contains(to));
                to.for_each(|to| {
                    losers.entry((from, *to)).or_default().insert(index);
                });
            }
        }
        let mut calls: BTreeMap<(Names, LostReason), BTreeSet<String>> = BTreeMap::new();
        for ((from, to), members) in losers {
            let some = &moved[&from][&to];
            let mut split: BTreeMap<LostReason, RoaringBitmap> = BTreeMap::new();
            for client in &members {
                cancellation.check()?;
                if let Some(reason) = LostReason::of(graph.may(clients.name(client), some[0])) {
                    split.entry(reason).or_default().insert(client);
                }
            }
            for (reason, members) in split {
                let names = some.iter().map(|one| target_name(one));
                calls.entry((clients.names(&members), reason)).or_default().extend(names);
            }
        }
        let all: BTreeSet<String> = destinations.iter().map(target_name).collect();
        let lost = |((clients, reason), some): ((Names, LostReason), BTreeSet<String>)| LostCall {
            clients,
            destinations: Names::of(&some.iter().map(String::as_str).collect(), all.iter().map(String::as_str)),
            reason,
        };
        Ok(Self { calls: calls.into_iter().map(lost).collect() })
    }
}
