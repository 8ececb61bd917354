//! What proxies of one class call: the services they see, at the addresses where they see them.
//!
//! A class has outbounds, which are listeners and names, and the clusters that these lead to: an outbound's own, and
//! those that policies send its calls to. A cluster stays as long as anything leads to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_policies::target::PortRef;
use kodiak_xds::{
    Built, build_assignment, build_cluster, build_listener,
    check::{self, Fault},
    endpoints, external,
    input::DnsRecord,
    names::Naming,
    outbound,
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::{Cache, Group},
    class_key::ClassKey,
    collections::{Collection, CountedSet, PrunedMap},
    plan::{self, Sources},
    rules::Rules,
    target::{Goal, Target, Targets, Touched},
};

#[derive(Clone, Default)]
pub(crate) struct Class {
    pub(crate) members: BTreeSet<Arc<str>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) set: ResourceSet,
    pub(crate) records: Arc<[DnsRecord]>,
    /// The secrets of a proxy that are needed, and by how many.
    pub(crate) needs: CountedSet<(TypeUrl, Arc<str>)>,
    /// Addresses that are bound, and by what.
    pub(crate) binds: BTreeMap<String, Arc<str>>,
    pub(crate) faults: BTreeMap<(Part, Arc<str>), Vec<Fault>>,
    /// By the name of their own cluster.
    outbounds: BTreeMap<Arc<str>, Outbound>,
    clusters: BTreeMap<Arc<str>, Called>,
    /// What depends on a target.
    by_target: PrunedMap<Target, Dependants>,
    /// The outbounds that look for a resource by what is written, and how many of each.
    asking: PrunedMap<PortRef, CountedSet<Target>>,
    /// Clusters that are not built yet, and those that something stopped leading to.
    loose: BTreeSet<Arc<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Outbound,
    Cluster,
}

#[derive(Clone)]
struct Outbound {
    target: Target,
    groups: Vec<Group>,
    records: Vec<DnsRecord>,
    leads_to: BTreeSet<Goal>,
    asks: BTreeSet<PortRef>,
}

/// A cluster and its endpoints.
#[derive(Clone)]
struct Called {
    goal: Goal,
    /// How many outbounds lead here.
    users: usize,
    groups: Vec<Group>,
}

#[derive(Clone, Default)]
struct Dependants {
    outbounds: BTreeSet<Arc<str>>,
    /// The targets whose outbounds lead here, and how many of each.
    led_from: CountedSet<Target>,
    clusters: BTreeSet<Arc<str>>,
}

impl Collection for Dependants {
    fn is_empty(&self) -> bool {
        let Self { outbounds, led_from, clusters } = self;
        outbounds.is_empty() && led_from.is_empty() && clusters.is_empty()
    }
}

impl Class {
    /// The same calls, for other proxies.
    pub(crate) fn like(&self) -> Self {
        Self { members: BTreeSet::new(), ..self.clone() }
    }

    /// The targets that concern it: those it calls, and those it would call if they came. `None`: it may be any.
    pub(crate) fn interest(&self, key: &ClassKey) -> Option<BTreeSet<Target>> {
        // Where a route leads may come later.
        let mut targets = key.reach.named().filter(|_| self.asking.is_empty())?;
        targets.extend(self.by_target.keys().cloned());
        Some(targets)
    }

    /// Whether anything is different for its proxies.
    pub(crate) fn update(
        &mut self,
        key: &ClassKey,
        from: Sources<'_>,
        touched: Touched<'_>,
        cache: &mut Cache,
    ) -> bool {
        let rules = self.rules.clone();
        let replanned = self.replanned(key, from, touched);
        let wanted = plan::outbounds(key, &rules, from, replanned.touched());
        let gone: Vec<Arc<str>> = match &replanned {
            Targets::All => self.outbounds.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect(),
            Targets::Some(targets) => {
                let known = targets.iter().filter_map(|target| self.by_target.get(target));
                let known = known.flat_map(|each| &each.outbounds);
                known.filter(|name| !wanted.contains_key(*name)).cloned().collect()
            }
        };
        let mut renamed = false;
        let mut changed = false;
        for name in &gone {
            if let Some(old) = self.take_outbound(name, &[], from.view.naming) {
                changed = true;
                renamed |= !old.records.is_empty();
            }
        }
        let mut new_outbounds = Vec::new();
        for (name, plan::Outbound { target, listeners, records, leads_to, asks }) in wanted {
            let listen =
                |listener| cache.listeners.get(listener, |input| vec![build_listener(&outbound::listener(input))]);
            let new = Outbound { target, groups: listeners.iter().map(listen).collect(), records, leads_to, asks };
            let old = self.outbounds.get(&name);
            let known = old.map_or(&[][..], |old| &old.records);
            let led = old.is_some_and(|old| old.leads_to == new.leads_to && old.asks == new.asks);
            if led && old.is_some_and(|old| same(&old.groups, &new.groups)) && known == new.records {
                continue;
            }
            changed = true;
            renamed |= known != new.records;
            // Clusters that both lead to must not be dropped and made again.
            self.lead(&name, &new, from.view.naming);
            self.take_outbound(&name, &new.groups, from.view.naming);
            self.belong(&name, &new.target);
            new_outbounds.push((name, new));
        }
        changed |= self.update_clusters(key, from, touched, cache);
        for (name, new) in new_outbounds {
            self.put_outbound(name, new);
        }
        if renamed {
            self.rename();
        }
        changed
    }

    /// The touched targets, and those whose outbounds lead to them, or may from now on.
    fn replanned(&self, key: &ClassKey, from: Sources<'_>, touched: Touched<'_>) -> Targets {
        let Touched::Some(targets) = touched else { return Targets::All };
        // A list is short, and what it means depends on all there is.
        if key.reach.lists_objects() && touched.has_objects() {
            return Targets::All;
        }
        let mut all = targets.clone();
        for target in targets {
            all.extend(self.by_target.get(target).into_iter().flat_map(|each| each.led_from.iter().cloned()));
            if let Target::Object(kri) = target {
                let asking = self.asking.iter().filter(|(written, _)| from.objects.could_be(written, kri));
                all.extend(asking.flat_map(|(_, outbounds)| outbounds.iter().cloned()));
            }
        }
        Targets::Some(all)
    }

    /// Builds the clusters that something leads to, where they are new or touched, and drops those nothing leads to.
    fn update_clusters(&mut self, key: &ClassKey, from: Sources<'_>, touched: Touched<'_>, cache: &mut Cache) -> bool {
        let rules = self.rules.clone();
        let stale: BTreeSet<Arc<str>> = match touched {
            Touched::All => self.clusters.keys().cloned().collect(),
            Touched::Some(targets) => {
                let known = targets.iter().filter_map(|target| self.by_target.get(target));
                let touched = known.flat_map(|each| each.clusters.iter().cloned());
                touched.chain(self.loose.iter().cloned()).collect()
            }
        };
        self.loose.clear();
        let mut changed = false;
        for name in stale {
            let Some(called) = self.clusters.get(&name) else { continue };
            if called.users == 0 {
                changed = true;
                self.drop_cluster(&name);
                continue;
            }
            let groups = build(&plan::cluster(key, &rules, from, &called.goal), cache);
            if same(&called.groups, &groups) {
                continue;
            }
            changed = true;
            let old = called.groups.clone();
            self.take_groups((Part::Cluster, &name), &old, &groups);
            self.put_groups((Part::Cluster, &name), &groups);
            if let Some(called) = self.clusters.get_mut(&name) {
                called.groups = groups;
            }
        }
        changed
    }

    fn drop_cluster(&mut self, name: &Arc<str>) {
        let Some(called) = self.clusters.remove(name) else { return };
        self.take_groups((Part::Cluster, name), &called.groups, &[]);
        self.by_target.shrink(&called.goal.target(), |dependants| {
            dependants.clusters.remove(name);
        });
    }

    /// One more outbound leads to its clusters.
    fn lead(&mut self, name: &Arc<str>, outbound: &Outbound, naming: Naming) {
        for goal in &outbound.leads_to {
            let cluster = goal.cluster(naming);
            let called = self.clusters.entry(cluster.clone()).or_insert_with(|| Called {
                goal: goal.clone(),
                users: 0,
                groups: Vec::new(),
            });
            called.users += 1;
            // A port that was given another name is still the same cluster.
            if called.groups.is_empty() || called.goal != *goal {
                called.goal = goal.clone();
                self.loose.insert(cluster.clone());
            }
            let of_target = self.by_target.grow(goal.target());
            of_target.clusters.insert(cluster);
            of_target.led_from.add(outbound.target.clone());
        }
        for written in &outbound.asks {
            self.asking.grow(written.clone()).add(outbound.target.clone());
        }
        self.belong(name, &outbound.target);
    }

    fn belong(&mut self, name: &Arc<str>, target: &Target) {
        self.by_target.grow(target.clone()).outbounds.insert(name.clone());
    }

    /// What is in `kept` comes back at once and stays in the set: a map that is not touched stays the same for all
    /// proxies.
    fn take_outbound(&mut self, name: &Arc<str>, kept: &[Group], naming: Naming) -> Option<Outbound> {
        let old = self.outbounds.remove(name)?;
        self.take_groups((Part::Outbound, name), &old.groups, kept);
        for goal in &old.leads_to {
            let cluster = goal.cluster(naming);
            if let Some(called) = self.clusters.get_mut(&cluster) {
                called.users -= 1;
                if called.users == 0 {
                    self.loose.insert(cluster);
                }
            }
            self.by_target.shrink(&goal.target(), |dependants| dependants.led_from.remove(&old.target));
        }
        for written in &old.asks {
            self.asking.shrink(written, |outbounds| outbounds.remove(&old.target));
        }
        self.by_target.shrink(&old.target, |dependants| {
            dependants.outbounds.remove(name);
        });
        Some(old)
    }

    fn put_outbound(&mut self, name: Arc<str>, new: Outbound) {
        self.put_groups((Part::Outbound, &name), &new.groups);
        self.outbounds.insert(name, new);
    }

    fn take_groups(&mut self, (part, name): (Part, &Arc<str>), old: &[Group], kept: &[Group]) {
        self.faults.remove(&(part, name.clone()));
        let goes = |group: &&Group| !kept.iter().any(|kept| Arc::ptr_eq(kept, group));
        for built in old.iter().filter(goes).flat_map(|group| group.iter()) {
            self.set.remove(built.type_url, &built.encoded.name);
        }
        for built in old.iter().flat_map(|group| group.iter()) {
            for need in &built.links.needs {
                self.needs.remove(need);
            }
            if let Some(address) = &built.links.binds
                && self.binds.get(address) == Some(&built.encoded.name)
            {
                self.binds.remove(address);
            }
        }
    }

    /// Secrets are the proxy's own. Everything else that is needed is here already: clusters come before what leads to
    /// them.
    fn put_groups(&mut self, (part, name): (Part, &Arc<str>), new: &[Group]) {
        let all = || new.iter().flat_map(|group| group.iter());
        for Built { type_url, encoded, .. } in all() {
            let known = self.set.of(*type_url).get(&encoded.name);
            if known.is_none_or(|known| !Arc::ptr_eq(known, encoded)) {
                self.set.insert(*type_url, encoded.clone());
            }
        }
        let mut faults = Vec::new();
        for built in all() {
            faults.extend(check::own(&built.encoded.name, &built.links));
            for need in &built.links.needs {
                let (type_url, needed) = need;
                if *type_url == TypeUrl::Secret {
                    self.needs.add(need.clone());
                } else if !self.set.of(*type_url).contains_key(needed) {
                    faults.push(Fault::Dangling {
                        resource: built.encoded.name.clone(),
                        kind: *type_url,
                        name: needed.clone(),
                    });
                }
            }
            if let Some(address) = &built.links.binds {
                match self.binds.get(address) {
                    Some(other) => faults.push(clash(&built.encoded.name, other, address)),
                    None => drop(self.binds.insert(address.clone(), built.encoded.name.clone())),
                }
            }
        }
        if !faults.is_empty() {
            self.faults.insert((part, name.clone()), faults);
        }
    }

    fn rename(&mut self) {
        let mut records: Vec<_> = self.outbounds.values().flat_map(|each| each.records.iter().cloned()).collect();
        records.sort();
        // A name that two services claim leads to one of them, always the same.
        records.dedup_by(|a, b| a.name == b.name);
        self.records = records.into();
    }
}

/// A cluster, and its endpoints where they are discovered.
fn build(planned: &plan::Cluster, cache: &mut Cache) -> Vec<Group> {
    match planned {
        plan::Cluster::Discovered(cluster, assignment) => vec![
            cache.clusters.get(cluster, |input| vec![build_cluster(&outbound::cluster(input))]),
            cache.assignments.get(assignment, |input| vec![build_assignment(&endpoints::assignment(input))]),
        ],
        plan::Cluster::External(cluster) => {
            vec![cache.external.get(cluster, |input| vec![build_cluster(&external::cluster(input))])]
        }
    }
}

pub(crate) fn clash(resource: &Arc<str>, other: &Arc<str>, address: &str) -> Fault {
    Fault::Clash { resource: resource.clone(), other: other.clone(), address: address.to_owned() }
}

/// Whether these are the same groups, which is told without looking into them.
pub(crate) fn same(old: &[Group], new: &[Group]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| Arc::ptr_eq(old, new))
}
