//! A configuration without faults, in place of one that failed validation.
//!
//! Faults are local to resources. A resource that takes part in one is replaced by the first of these versions with which
//! the fault is gone, and everything else is sent as it is:
//!
//! 1. as the current modifications make it ([`Level::Current`]);
//! 2. the current resource with the modifications of the last configuration without faults;
//! 3. the current resource without the modifications that are at fault;
//! 4. its published version ([`Level::Published`]); of an inbound listener only with its current permissions and TLS;
//! 5. none: it is left out.
//!
//! A reference that does not resolve is the fault of the modification that introduced it. Otherwise the missing resource
//! comes back in one of its versions, or, if it has none, the resource that references it takes part in the fault. Of two
//! listeners with one address, the one that has it already keeps it.
//!
//! **Invariant:** references of the result resolve, and no two listeners have one address.
//! **Invariant:** a resource stays at its current version, unless a fault leads to it by references.
//! **Invariant:** versions 1 to 3 are made from the current state: permissions of inbound listeners never wait for a fault.
//! **Invariant:** each step takes a resource to a later version, so it ends.

pub(crate) mod permissions;
#[cfg(test)]
mod tests;
mod versions;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_xds::Built;
use kodiak_xds_stream::TypeUrl;

pub(crate) use versions::{Available, ModificationsInForce};

pub(crate) type ResourceId = (TypeUrl, Arc<str>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Current,
    LastModifications,
    WithoutFaulty,
    Published,
    LeftOut,
}

/// Versions of resources besides the current ones.
pub(crate) trait Versions {
    /// The current resource with the modifications of the last configuration without faults.
    fn with_last_modifications(&self, id: &ResourceId) -> Option<Built>;
    /// The current resource without the modifications at `excluded`.
    fn without(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Built>;
    /// The modification that removes it, of those that are not in `excluded`.
    fn remover(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Arc<str>>;
    /// The version that the proxy was sent last.
    fn published(&self, id: &ResourceId) -> Option<Built>;
    /// Whether the published version may be sent in place of the current one.
    fn may_stay(&self, id: &ResourceId, published: &Built) -> bool;
}

/// Result of [`settle`].
pub(crate) struct Settled {
    pub(crate) resources: BTreeMap<ResourceId, Built>,
    /// Those with the published version, made from an earlier state.
    pub(crate) stale: BTreeSet<ResourceId>,
}

struct Slot {
    /// Place in the order of precedence. `None` if the resource is not in the current configuration.
    position: Option<usize>,
    level: Level,
    /// Modifications that are at fault.
    excluded: BTreeSet<Arc<str>>,
    chosen: Option<Built>,
}

impl Slot {
    fn missing() -> Self {
        Self { position: None, level: Level::Current, excluded: BTreeSet::new(), chosen: None }
    }
}

/// Resources of a configuration without faults. `current` is in order of precedence.
pub(crate) fn settle<'a>(current: impl IntoIterator<Item = &'a Built>, versions: &impl Versions) -> Settled {
    let mut search = Search { slots: slots(current, versions), versions };
    while search.step() {}
    search.prune();
    let Search { slots, .. } = search;
    let is_stale = |slot: &Slot| slot.level == Level::Published && slot.chosen.is_some();
    let stale = slots.iter().filter(|(_, slot)| is_stale(slot)).map(|(id, _)| id.clone()).collect();
    let resources = slots.into_iter().filter_map(|(id, slot)| Some((id, slot.chosen?))).collect();
    Settled { resources, stale }
}

fn id_of(built: &Built) -> ResourceId {
    (built.type_url, built.encoded.name.clone())
}

fn slots<'a>(current: impl IntoIterator<Item = &'a Built>, versions: &impl Versions) -> BTreeMap<ResourceId, Slot> {
    let mut candidates: BTreeMap<ResourceId, Vec<(usize, &Built)>> = BTreeMap::new();
    for (position, built) in current.into_iter().enumerate() {
        let known = candidates.entry(id_of(built)).or_default();
        if known.iter().all(|(_, other)| other.encoded != built.encoded) {
            known.push((position, built));
        }
    }
    let slot = |(id, candidates): (ResourceId, Vec<(usize, &Built)>)| {
        let (position, built) = choose(&id, &candidates, versions)?;
        let slot = Slot { position: Some(position), chosen: Some(built.clone()), ..Slot::missing() };
        Some((id, slot))
    };
    candidates.into_iter().filter_map(slot).collect()
}

/// Of several resources with one name, the one that was published stays. It may have changed since; then its references
/// show which one it was. Without one, the first is used.
fn choose<'a>(
    id: &ResourceId,
    candidates: &[(usize, &'a Built)],
    versions: &impl Versions,
) -> Option<(usize, &'a Built)> {
    let published = (candidates.len() > 1).then(|| versions.published(id)).flatten();
    let known = published.and_then(|published| {
        let equal = candidates.iter().find(|(_, built)| built.encoded == published.encoded);
        equal.or_else(|| candidates.iter().find(|(_, built)| built.links.needs == published.links.needs))
    });
    known.or_else(|| candidates.first()).copied()
}

/// A resource that has to change, with the modification that is at fault.
struct Problem {
    id: ResourceId,
    kind: ProblemKind,
    at: Option<Arc<str>>,
}

enum ProblemKind {
    /// Of the resource itself, or of its address.
    Own,
    Missing(ResourceId),
}

struct Search<'a, V> {
    slots: BTreeMap<ResourceId, Slot>,
    versions: &'a V,
}

impl<V: Versions> Search<'_, V> {
    /// False if there is no fault.
    fn step(&mut self) -> bool {
        let problems = self.problems();
        // A resource changes at most once a step: it may resolve what others lack.
        let mut changed = BTreeSet::new();
        for Problem { id, kind, at } in &problems {
            if changed.contains(id) {
                continue;
            }
            match kind {
                ProblemKind::Own => self.retreat(id, at.as_ref()),
                ProblemKind::Missing(needed) if changed.contains(needed) => continue,
                ProblemKind::Missing(needed) => {
                    let level = self.slots.get(id).map_or(Level::LeftOut, |slot| slot.level);
                    // What an earlier version references comes from the same configuration.
                    if self.bring_back(needed, level) || (at.is_none() && self.bring_back(needed, Level::Published)) {
                        changed.insert(needed.clone());
                        continue;
                    }
                    self.retreat(id, at.as_ref());
                }
            }
            changed.insert(id.clone());
        }
        !problems.is_empty()
    }

    fn problems(&self) -> Vec<Problem> {
        let chosen = || self.slots.iter().filter_map(|(id, slot)| Some((id, slot, slot.chosen.as_ref()?)));
        let mut problems = Vec::new();
        let mut bound: BTreeMap<&str, Vec<(&ResourceId, &Slot, &Built)>> = BTreeMap::new();
        for (id, slot, built) in chosen() {
            let links = &built.links;
            let patched = links.patch.as_ref();
            let own = patched.and_then(|trace| trace.faults.first()).map(|(at, _)| at.clone());
            if own.is_some() || !links.faults.is_empty() {
                problems.push(Problem { id: id.clone(), kind: ProblemKind::Own, at: own });
            }
            for need in links.needs.iter().filter(|need| !self.exists(need)) {
                let at = patched.and_then(|trace| trace.needs.get(need)).cloned();
                problems.push(Problem { id: id.clone(), kind: ProblemKind::Missing(need.clone()), at });
            }
            if let Some(address) = &links.binds {
                bound.entry(address).or_default().push((id, slot, built));
            }
        }
        for (address, mut listeners) in bound.into_iter().filter(|(_, listeners)| listeners.len() > 1) {
            listeners.sort_by_key(|(id, slot, built)| {
                let moved = built.links.patch.as_ref().is_some_and(|trace| trace.binds.is_some());
                let had_it = self.versions.published(id).is_some_and(|it| it.links.binds.as_deref() == Some(address));
                (slot.level, moved, !had_it, slot.position.unwrap_or(usize::MAX))
            });
            let losers = listeners[1..].iter().map(|(id, _, built)| Problem {
                id: (*id).clone(),
                kind: ProblemKind::Own,
                at: built.links.patch.as_ref().and_then(|trace| trace.binds.clone()),
            });
            problems.extend(losers);
        }
        problems
    }

    fn exists(&self, id: &ResourceId) -> bool {
        self.slots.get(id).is_some_and(|slot| slot.chosen.is_some())
    }

    /// Takes a resource to its next version.
    fn retreat(&mut self, id: &ResourceId, at: Option<&Arc<str>>) {
        let Some(slot) = self.slots.get_mut(id) else { return };
        // Names of other modifications may be equal in the last configuration without faults.
        let is_new = slot.level != Level::LastModifications && at.is_some_and(|at| slot.excluded.insert(at.clone()));
        if slot.level == Level::WithoutFaulty && is_new {
            slot.chosen = self.versions.without(id, &slot.excluded);
            if slot.chosen.is_some() {
                return;
            }
        }
        while let Some((level, chosen)) = following(self.versions, id, slot) {
            slot.level = level;
            if chosen.is_some() {
                slot.chosen = chosen;
                return;
            }
        }
        slot.level = Level::LeftOut;
        slot.chosen = None;
    }

    /// Chooses the next version of a resource that does not exist, up to this level. Returns whether there is one.
    fn bring_back(&mut self, id: &ResourceId, most: Level) -> bool {
        let slot = self.slots.entry(id.clone()).or_insert_with(Slot::missing);
        let mut tried = Slot { excluded: slot.excluded.clone(), level: slot.level, ..Slot::missing() };
        while let Some(at) = self.versions.remover(id, &tried.excluded) {
            tried.excluded.insert(at);
        }
        while let Some((level, chosen)) = following(self.versions, id, &tried).filter(|(level, _)| *level <= most) {
            tried.level = level;
            if chosen.is_some() {
                *slot = Slot { position: slot.position, chosen, ..tried };
                return true;
            }
        }
        false
    }

    /// Envoy does not subscribe to endpoints and secrets that nothing references, so its ACK would never come. Clusters
    /// that came back for others go with them.
    fn prune(&mut self) {
        loop {
            let needs = self.slots.values().filter_map(|slot| slot.chosen.as_ref());
            let needed: BTreeSet<&ResourceId> = needs.flat_map(|built| &built.links.needs).collect();
            let needs_secrets = needed.iter().any(|(type_url, _)| *type_url == TypeUrl::Secret);
            let is_unused = |(id, slot): &(&ResourceId, &Slot)| match id.0 {
                _ if slot.chosen.is_none() => false,
                TypeUrl::Secret => !needs_secrets,
                TypeUrl::Endpoint => !needed.contains(id),
                TypeUrl::Cluster | TypeUrl::Listener | TypeUrl::Route => {
                    slot.position.is_none() && !needed.contains(id)
                }
            };
            let unused: BTreeSet<ResourceId> = self.slots.iter().filter(is_unused).map(|(id, _)| id.clone()).collect();
            if unused.is_empty() {
                return;
            }
            self.slots.retain(|id, _| !unused.contains(id));
        }
    }
}

/// The next level of a resource, with its version there.
fn following(versions: &impl Versions, id: &ResourceId, slot: &Slot) -> Option<(Level, Option<Built>)> {
    Some(match slot.level {
        Level::Current => (Level::LastModifications, versions.with_last_modifications(id)),
        Level::LastModifications => {
            // Without an exclusion, it is the current version. Only endpoints that no current cluster references have one.
            let differs = !slot.excluded.is_empty() || slot.position.is_none();
            let without = differs.then(|| versions.without(id, &slot.excluded)).flatten();
            (Level::WithoutFaulty, without)
        }
        Level::WithoutFaulty => {
            let published = versions.published(id).filter(|published| versions.may_stay(id, published));
            (Level::Published, published)
        }
        Level::Published | Level::LeftOut => return None,
    })
}
