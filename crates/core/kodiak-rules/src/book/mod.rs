//! All policies and proxies of a mesh, each under what it can be found by.

mod anchor;
mod memo;
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

use self::{anchor::Anchor, memo::Memo};
use crate::{
    Context, Gateway, Matched, Policy, Proxy, Routes, Selection, Shadow, gateway,
    precedence::{Strength, by_name},
    select,
};

/// What a policy is known by: its kind and its name.
pub type PolicyKey = (&'static str, Arc<str>);

#[derive(Default)]
pub struct Book {
    policies: BTreeMap<PolicyKey, Arc<Filed>>,
    /// The policies of each kind, by their anchors and then by their numbers.
    shelves: BTreeMap<&'static str, HashMap<Anchor, BTreeMap<u64, Arc<Filed>>>>,
    routes: Routes,
    /// The policies whose targets are routes, by the name of the route.
    followers: BTreeMap<Arc<str>, BTreeSet<PolicyKey>>,
    proxies: BTreeMap<Arc<str>, Arc<Known>>,
    /// The proxies by their anchors.
    places: HashMap<Anchor, BTreeMap<Arc<str>, Arc<Known>>>,
    gateways: BTreeMap<Arc<str>, Arc<Gateway>>,
    /// The proxies that are builtin gateways.
    builtin: BTreeSet<Arc<str>>,
    memo: Memo,
    last_number: u64,
    looked_at: AtomicU64,
}

/// A policy in its place, with what sorting needs.
struct Filed {
    policy: Arc<Policy>,
    strength: Strength,
    anchor: Anchor,
    /// Another one whenever a policy changes.
    number: u64,
}

/// A proxy in its places.
struct Known {
    proxy: Arc<Proxy>,
    gateway: Option<Arc<Gateway>>,
    anchors: Vec<Anchor>,
}

impl Book {
    /// The names of proxies for which it may make a difference: those that the old one or the new one selects, and for a
    /// route also those that its followers select.
    pub fn set_policy(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) -> BTreeSet<Arc<str>> {
        let old = self.policies.get(key).map(|filed| Arc::clone(&filed.policy));
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
            let policy = self.policies.get(follower).map(|filed| Arc::clone(&filed.policy));
            self.file(follower, policy);
        }
        concerned.append(&mut self.concerned(&keys));
        concerned
    }

    /// All policies, in the order of their kinds and names.
    pub fn policies(&self) -> impl Iterator<Item = &Arc<Policy>> {
        self.policies.values().map(|filed| &filed.policy)
    }

    pub fn set_proxy(&mut self, name: &Arc<str>, proxy: Option<Arc<Proxy>>) {
        let gateway = proxy.as_ref().and_then(|proxy| gateway::of(proxy, self.gateways.values())).cloned();
        self.place(name, proxy.map(|proxy| (proxy, gateway)));
    }

    /// The names of proxies for which it may make a difference: those that take the old one or the new one.
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

    /// The policies of a kind that are about a proxy. Equal answers are the same while anyone keeps them, so they can be
    /// compared by where they are.
    pub fn matched(&self, kind: &str, proxy: &str, shadow: Shadow) -> Arc<Matched> {
        match self.proxies.get(proxy) {
            Some(known) => {
                let Known { proxy, gateway, anchors } = &**known;
                self.answer(kind, proxy, gateway.as_deref(), anchors, shadow)
            }
            None => self.memo.answer(Vec::new(), |_| unreachable!("there are no lines")),
        }
    }

    /// As if the proxy were in the book.
    pub fn matched_by(&self, kind: &str, proxy: &Proxy, shadow: Shadow) -> Arc<Matched> {
        let gateway = self.gateway_of(proxy);
        self.answer(kind, proxy, gateway, &anchor::of_proxy(proxy, gateway), shadow)
    }

    /// The MeshGateway that a proxy takes.
    pub fn gateway_of(&self, proxy: &Proxy) -> Option<&Gateway> {
        gateway::of(proxy, self.gateways.values()).map(|gateway| &**gateway)
    }

    /// The proxies that a policy selects.
    pub fn selected(&self, policy: &Policy, shadow: Shadow) -> BTreeSet<Arc<str>> {
        let at = anchor::of_policy(policy, &self.routes);
        self.found(policy, at, shadow, |selection| selection.proxy).collect()
    }

    /// How many times a policy and a proxy were looked at together since the beginning, to answer any question.
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
        let of_kind = self.shelves.get(kind);
        let candidates = anchors.iter().filter_map(|anchor| of_kind?.get(anchor)).flat_map(BTreeMap::values);
        let mut found: Vec<(&Filed, Selection)> = candidates
            .map(|filed| (&**filed, self.look(&filed.policy, proxy, gateway, shadow)))
            .filter(|(_, selection)| *selection != Selection::default())
            .collect();
        found.sort_unstable_by(|(a, _), (b, _)| {
            let strength = a.strength.cmp(&b.strength);
            strength.then_with(|| by_name(&a.policy, &b.policy)).then_with(|| a.number.cmp(&b.number))
        });
        let (filed, lines): (Vec<&Filed>, Vec<memo::Line>) =
            found.into_iter().map(|(filed, selection)| (filed, (filed.number, selection))).unzip();
        self.memo.answer(lines, |n| &filed[n].policy)
    }

    fn look(&self, policy: &Policy, proxy: &Proxy, gateway: Option<&Gateway>, shadow: Shadow) -> Selection {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        select(policy, proxy, Context { gateway, routes: Some(&self.routes) }, shadow)
    }

    /// The proxies of which a policy selects what is wanted.
    fn found(
        &self,
        policy: &Policy,
        at: Anchor,
        shadow: Shadow,
        wanted: impl Fn(&Selection) -> bool,
    ) -> impl Iterator<Item = Arc<str>> {
        let candidates = self.places.get(&at).into_iter().flatten();
        candidates.filter_map(move |(name, known)| {
            let selection = self.look(policy, &known.proxy, known.gateway.as_deref(), shadow);
            wanted(&selection).then(|| Arc::clone(name))
        })
    }

    /// The proxies of whose answers any of these policies is part, if only by a warning.
    fn concerned(&self, keys: &BTreeSet<PolicyKey>) -> BTreeSet<Arc<str>> {
        let filed = keys.iter().filter_map(|key| self.policies.get(key));
        let is_part = |selection: &Selection| *selection != Selection::default();
        filed.flat_map(|filed| self.found(&filed.policy, filed.anchor, Shadow::Included, is_part)).collect()
    }

    fn file(&mut self, key: &PolicyKey, policy: Option<Arc<Policy>>) {
        let (kind, _) = key;
        if let Some(old) = self.policies.remove(key) {
            if let Some(shelf) = self.shelves.get_mut(kind)
                && let Some(filed) = shelf.get_mut(&old.anchor)
            {
                filed.remove(&old.number);
                if filed.is_empty() {
                    shelf.remove(&old.anchor);
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
        let (strength, anchor) = (Strength::of(&policy), anchor::of_policy(&policy, &self.routes));
        let filed = Arc::new(Filed { policy, strength, anchor, number });
        self.shelves.entry(kind).or_default().entry(anchor).or_default().insert(number, Arc::clone(&filed));
        self.policies.insert(key.clone(), filed);
    }

    fn place(&mut self, name: &Arc<str>, proxy: Option<(Arc<Proxy>, Option<Arc<Gateway>>)>) {
        self.builtin.remove(name);
        for anchor in self.proxies.remove(name).iter().flat_map(|old| &old.anchors) {
            if let Some(there) = self.places.get_mut(anchor) {
                there.remove(name);
                if there.is_empty() {
                    self.places.remove(anchor);
                }
            }
        }
        let Some((proxy, gateway)) = proxy else { return };
        let anchors = anchor::of_proxy(&proxy, gateway.as_deref());
        let known = Arc::new(Known { proxy, gateway, anchors });
        for anchor in &known.anchors {
            self.places.entry(*anchor).or_default().insert(Arc::clone(name), Arc::clone(&known));
        }
        if known.proxy.dataplane.is_builtin_gateway() {
            self.builtin.insert(Arc::clone(name));
        }
        self.proxies.insert(Arc::clone(name), known);
    }
}

/// The name of the route that a policy is about.
fn followed(policy: &Policy) -> Option<&str> {
    policy.body.target.as_ref().and_then(anchor::followed)
}
