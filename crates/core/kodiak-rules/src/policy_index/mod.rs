//! Index of all policies and proxies of a mesh.

mod anchor;
mod interner;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use kodiak_model::{TargetKind, Word};

pub(crate) use self::anchor::is_wide;
use self::{anchor::Anchor, interner::ResultInterner};
use crate::{
    Gateway, Matched, Policy, Proxy, Routes, Selection, SelectionContext, Shadow, gateway,
    partial::{PartialProxy, Possible, PossiblePolicies},
    precedence::{Strength, by_name},
    select,
};

/// Kind and name of a policy.
pub type PolicyKey = (&'static str, Arc<str>);

#[derive(Default)]
pub struct PolicyIndex {
    policies: BTreeMap<PolicyKey, Arc<IndexedPolicy>>,
    /// Policies of each kind, by anchor and then by number.
    policies_by_anchor: BTreeMap<&'static str, HashMap<Anchor, BTreeMap<u64, Arc<IndexedPolicy>>>>,
    routes: Routes,
    /// Policies that target routes, by the name of the route.
    followers: BTreeMap<Arc<str>, BTreeSet<PolicyKey>>,
    proxies: BTreeMap<Arc<str>, Arc<IndexedProxy>>,
    /// Proxies by anchor.
    proxies_by_anchor: HashMap<Anchor, BTreeMap<Arc<str>, Arc<IndexedProxy>>>,
    gateways: BTreeMap<Arc<str>, Arc<Gateway>>,
    /// Proxies that are builtin gateways.
    builtin: BTreeSet<Arc<str>>,
    interner: ResultInterner,
    /// Policies that may select proxies of which little is known.
    possible: PossiblePolicies,
    last_number: u64,
    looked_at: AtomicU64,
}

/// An indexed policy, with its sort keys.
struct IndexedPolicy {
    policy: Arc<Policy>,
    strength: Strength,
    anchor: Anchor,
    /// Changes with every change of the policy.
    number: u64,
}

/// An indexed proxy.
struct IndexedProxy {
    proxy: Arc<Proxy>,
    gateway: Option<Arc<Gateway>>,
    anchors: Vec<Anchor>,
}

impl PolicyIndex {
    /// Returns the names of proxies that may be affected: those that the old or the new policy selects, and for a route
    /// also those that policies for the route select.
    pub fn set_policy(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) -> BTreeSet<Arc<str>> {
        let old = self.policies.get(key).map(|indexed| Arc::clone(&indexed.policy));
        if old == policy {
            return BTreeSet::new();
        }
        let is_route = key.0 == TargetKind::MeshHTTPRoute.text();
        let mut keys = BTreeSet::from([key.clone()]);
        for route in old.iter().chain(&policy).filter(|_| is_route) {
            keys.extend(self.followers.get(route.meta().display_name()).into_iter().flatten().cloned());
        }
        let mut concerned = self.concerned(&keys);
        if is_route {
            if let Some(old) = &old {
                self.routes.remove(old);
            }
            if let Some(policy) = &policy {
                self.routes.insert(Arc::clone(policy));
            }
        }
        self.file(key, policy);
        for follower in keys.iter().filter(|follower| *follower != key) {
            let policy = self.policies.get(follower).map(|indexed| Arc::clone(&indexed.policy));
            self.file(follower, policy);
        }
        concerned.append(&mut self.concerned(&keys));
        concerned
    }

    /// All policies, ordered by kind and name.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values().map(|indexed| &indexed.policy)
    }

    pub fn set_proxy(&mut self, name: &Arc<str>, proxy: Option<Arc<Proxy>>) {
        let gateway = proxy.as_ref().and_then(|proxy| gateway::of(proxy, self.gateways.values())).cloned();
        self.place(name, proxy.map(|proxy| (proxy, gateway)));
    }

    pub fn proxy(&self, name: &str) -> Option<&Arc<Proxy>> {
        self.proxies.get(name).map(|indexed| &indexed.proxy)
    }

    /// Returns the names of proxies that may be affected: those of the old or the new gateway.
    pub fn set_gateway(&mut self, name: &Arc<str>, gateway: Option<Arc<Gateway>>) -> BTreeSet<Arc<str>> {
        match gateway {
            Some(gateway) => self.gateways.insert(Arc::clone(name), gateway),
            None => self.gateways.remove(name),
        };
        let mut concerned = BTreeSet::new();
        for proxy in self.builtin.clone() {
            let Some(known) = self.proxies.get(&proxy) else { continue };
            let new = gateway::of(&known.proxy, self.gateways.values()).cloned();
            if known.gateway != new {
                let known = Arc::clone(&known.proxy);
                self.place(&proxy, Some((known, new)));
                concerned.insert(proxy);
            }
        }
        concerned
    }

    /// The policies of a kind that match a proxy. Equal results are the same object while it is in use, so they can be
    /// compared by pointer.
    pub fn matched(&self, kind: &str, proxy: &str, shadow: Shadow) -> Arc<Matched> {
        match self.proxies.get(proxy) {
            Some(known) => {
                let IndexedProxy { proxy, gateway, anchors } = &**known;
                self.answer(kind, proxy, gateway.as_deref(), anchors, shadow)
            }
            None => self.interner.answer(Vec::new(), |_| unreachable!("there are no lines")),
        }
    }

    /// Like [`matched`](Self::matched), for a proxy that is not in the index.
    pub fn matched_by(&self, kind: &str, proxy: &Proxy, shadow: Shadow) -> Arc<Matched> {
        let gateway = self.gateway_of(proxy);
        self.answer(kind, proxy, gateway, &anchor::of_proxy(proxy, gateway), shadow)
    }

    /// The policies of a kind that may select a proxy of which no more is known than this.
    pub fn possible(&self, kind: &'static str, proxy: &PartialProxy, shadow: Shadow) -> Possible {
        let all = || {
            let of_kind = self.policies_by_anchor.get(kind).into_iter().flat_map(HashMap::values);
            of_kind.flatten().map(|(number, indexed)| (*number, &indexed.policy))
        };
        let (possible, looked_at) = self.possible.possible(kind, proxy, shadow, all);
        self.looked_at.fetch_add(looked_at as u64, Ordering::Relaxed);
        possible
    }

    /// The MeshGateway of a proxy.
    pub fn gateway_of(&self, proxy: &Proxy) -> Option<&Gateway> {
        gateway::of(proxy, self.gateways.values()).map(|gateway| &**gateway)
    }

    /// The proxies that a policy selects.
    pub fn selected(&self, policy: &Policy, shadow: Shadow) -> BTreeSet<Arc<str>> {
        let at = anchor::of_policy(policy, &self.routes);
        self.found(policy, at, shadow, |selection| selection.proxy).collect()
    }

    /// Number of comparisons of a policy with a proxy so far.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    fn answer(
        &self,
        kind: &str,
        proxy: &Proxy,
        gateway: Option<&Gateway>,
        anchors: &[Anchor],
        shadow: Shadow,
    ) -> Arc<Matched> {
        let of_kind = self.policies_by_anchor.get(kind);
        let candidates = anchors.iter().filter_map(|anchor| of_kind?.get(anchor)).flat_map(BTreeMap::values);
        let mut found: Vec<(&IndexedPolicy, Selection)> = candidates
            .map(|indexed| (&**indexed, self.look(&indexed.policy, proxy, gateway, shadow)))
            .filter(|(_, selection)| *selection != Selection::default())
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| {
            let strength = a.strength.cmp(&b.strength);
            strength.then_with(|| by_name(&a.policy, &b.policy)).then_with(|| a.number.cmp(&b.number))
        });
        let (indexed, lines): (Vec<&IndexedPolicy>, Vec<interner::Line>) =
            found.into_iter().map(|(indexed, selection)| (indexed, (indexed.number, selection))).unzip();
        self.interner.answer(lines, |n| &indexed[n].policy)
    }

    fn look(&self, policy: &Policy, proxy: &Proxy, gateway: Option<&Gateway>, shadow: Shadow) -> Selection {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        select(policy, proxy, SelectionContext { gateway, routes: Some(&self.routes) }, shadow)
    }

    /// The proxies with a selection that `wanted` accepts.
    fn found(
        &self,
        policy: &Policy,
        at: Anchor,
        shadow: Shadow,
        wanted: impl Fn(&Selection) -> bool,
    ) -> impl Iterator<Item = Arc<str>> {
        let candidates = self.proxies_by_anchor.get(&at).into_iter().flatten();
        candidates.filter_map(move |(name, known)| {
            let selection = self.look(policy, &known.proxy, known.gateway.as_deref(), shadow);
            wanted(&selection).then(|| Arc::clone(name))
        })
    }

    /// The proxies whose results contain any of these policies, including warnings.
    fn concerned(&self, keys: &BTreeSet<PolicyKey>) -> BTreeSet<Arc<str>> {
        let indexed = keys.iter().filter_map(|key| self.policies.get(key));
        let is_part = |selection: &Selection| *selection != Selection::default();
        indexed.flat_map(|indexed| self.found(&indexed.policy, indexed.anchor, Shadow::Included, is_part)).collect()
    }

    fn file(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) {
        let (kind, _) = key;
        if let Some(old) = self.policies.remove(key) {
            self.possible.remove(kind, old.number, &old.policy);
            if let Some(at_anchor) = self.policies_by_anchor.get_mut(kind)
                && let Some(indexed) = at_anchor.get_mut(&old.anchor)
            {
                indexed.remove(&old.number);
                if indexed.is_empty() {
                    at_anchor.remove(&old.anchor);
                }
            }
            if let Some(route) = followed(&old.policy)
                && let Some(followers) = self.followers.get_mut(route)
            {
                followers.remove(key);
                if followers.is_empty() {
                    self.followers.remove(route);
                }
            }
        }
        let Some(policy) = policy else { return };
        if let Some(route) = followed(&policy) {
            self.followers.entry(route.into()).or_default().insert(key.clone());
        }
        self.last_number += 1;
        let number = self.last_number;
        self.possible.insert(kind, number, &policy);
        let (strength, anchor) = (Strength::of(&policy), anchor::of_policy(&policy, &self.routes));
        let indexed = Arc::new(IndexedPolicy { policy, strength, anchor, number });
        self.policies_by_anchor
            .entry(kind)
            .or_default()
            .entry(anchor)
            .or_default()
            .insert(number, Arc::clone(&indexed));
        self.policies.insert(key.clone(), indexed);
    }

    fn place(&mut self, name: &Arc<str>, proxy: Option<(Arc<Proxy>, Option<Arc<Gateway>>)>) {
        self.builtin.remove(name);
        for anchor in self.proxies.remove(name).iter().flat_map(|old| &old.anchors) {
            if let Some(there) = self.proxies_by_anchor.get_mut(anchor) {
                there.remove(name);
                if there.is_empty() {
                    self.proxies_by_anchor.remove(anchor);
                }
            }
        }
        let Some((proxy, gateway)) = proxy else { return };
        let anchors = anchor::of_proxy(&proxy, gateway.as_deref());
        let known = Arc::new(IndexedProxy { proxy, gateway, anchors });
        for anchor in &known.anchors {
            self.proxies_by_anchor.entry(*anchor).or_default().insert(Arc::clone(name), Arc::clone(&known));
        }
        if known.proxy.dataplane.is_builtin_gateway() {
            self.builtin.insert(Arc::clone(name));
        }
        self.proxies.insert(Arc::clone(name), known);
    }
}

/// Name of the route that a policy targets.
fn followed(policy: &Policy) -> Option<&str> {
    policy.body.target.as_ref().and_then(anchor::followed)
}
