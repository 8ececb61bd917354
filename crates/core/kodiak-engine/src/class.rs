//! What proxies of one class call: the services they see, at the addresses where they see them.
//!
//! A class has outbounds, which are listeners and names, and the clusters that these lead to: an outbound's own, and
//! those that policies send its calls to. A cluster stays as long as anything leads to it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::tags;
use kodiak_xds::{
    Built, build_assignment, build_cluster, build_listener,
    check::{self, Fault},
    endpoints,
    input::{DnsRecord, Tags},
    names, outbound,
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::{Cache, Group},
    class_key::ClassKey,
    plan::{self, Sources, Touched},
    rules::Rules,
};

#[derive(Clone, Default)]
pub(crate) struct Class {
    pub(crate) members: BTreeSet<Arc<str>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) set: ResourceSet,
    pub(crate) records: Arc<[DnsRecord]>,
    /// The secrets of a proxy that are needed, and by how many.
    pub(crate) needs: BTreeMap<(TypeUrl, Arc<str>), usize>,
    /// Addresses that are bound, and by what.
    pub(crate) binds: BTreeMap<String, Arc<str>>,
    pub(crate) faults: BTreeMap<(Part, Arc<str>), Vec<Fault>>,
    /// By the name of their own cluster.
    outbounds: BTreeMap<Arc<str>, Outbound>,
    clusters: BTreeMap<Arc<str>, Called>,
    /// What depends on a service.
    by_service: BTreeMap<Arc<str>, Dependants>,
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
    service: Arc<str>,
    groups: Vec<Group>,
    records: Vec<DnsRecord>,
    leads_to: BTreeSet<Arc<Tags>>,
}

/// A cluster and its endpoints.
#[derive(Clone)]
struct Called {
    tags: Arc<Tags>,
    /// How many outbounds lead here.
    users: usize,
    groups: Vec<Group>,
}

#[derive(Clone, Default)]
struct Dependants {
    /// The services whose outbounds lead here, and how many of each.
    led_from: BTreeMap<Arc<str>, usize>,
    clusters: BTreeSet<Arc<str>>,
}

impl Class {
    /// The same calls, for other proxies.
    pub(crate) fn like(&self) -> Self {
        Self { members: BTreeSet::new(), ..self.clone() }
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
        let more = self.with_dependants(touched);
        let replanned = more.as_ref().map_or(Touched::All, Touched::Services);
        let wanted = plan::outbounds(key, &rules, from, replanned);
        let gone: Vec<Arc<str>> = match touched {
            Touched::All => self.outbounds.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect(),
            Touched::Services(_) => {
                wanted.iter().filter(|(_, plan)| plan.is_none()).map(|(name, _)| name.clone()).collect()
            }
        };
        let mut renamed = false;
        let mut changed = false;
        for name in &gone {
            if let Some(old) = self.take_outbound(name, &[]) {
                changed = true;
                renamed |= !old.records.is_empty();
            }
        }
        let mut new_outbounds = Vec::new();
        for (name, plan) in wanted {
            let Some(plan::Outbound { service, listeners, records, leads_to }) = plan else { continue };
            let listen =
                |listener| cache.listeners.get(listener, |input| vec![build_listener(&outbound::listener(input))]);
            let new = Outbound { service, groups: listeners.iter().map(listen).collect(), records, leads_to };
            let old = self.outbounds.get(&name);
            let known = old.map_or(&[][..], |old| &old.records);
            if old.is_some_and(|old| same(&old.groups, &new.groups) && old.leads_to == new.leads_to)
                && known == new.records
            {
                continue;
            }
            changed = true;
            renamed |= known != new.records;
            // Clusters that both lead to must not be dropped and made again.
            self.lead(&new);
            self.take_outbound(&name, &new.groups);
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

    /// The touched services, and those whose outbounds lead to them. `None`: all.
    fn with_dependants(&self, touched: Touched<'_>) -> Option<BTreeSet<Arc<str>>> {
        let Touched::Services(names) = touched else { return None };
        let led_from = |name: &Arc<str>| self.by_service.get(name).into_iter().flat_map(|each| each.led_from.keys());
        Some(names.iter().flat_map(|name| led_from(name).chain([name])).cloned().collect())
    }

    /// Builds the clusters that something leads to, where they are new or touched, and drops those nothing leads to.
    fn update_clusters(&mut self, key: &ClassKey, from: Sources<'_>, touched: Touched<'_>, cache: &mut Cache) -> bool {
        let rules = self.rules.clone();
        let stale: BTreeSet<Arc<str>> = match touched {
            Touched::All => self.clusters.keys().cloned().collect(),
            Touched::Services(names) => {
                let known = names.iter().filter_map(|name| self.by_service.get(name));
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
            let (cluster, assignment) = plan::cluster(key, &rules, from, &called.tags);
            let groups = vec![
                cache.clusters.get(&cluster, |input| vec![build_cluster(&outbound::cluster(input))]),
                cache.assignments.get(&assignment, |input| vec![build_assignment(&endpoints::assignment(input))]),
            ];
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
        let service = service(&called.tags);
        if let Some(of_service) = self.by_service.get_mut(&service) {
            of_service.clusters.remove(name);
            if of_service.clusters.is_empty() && of_service.led_from.is_empty() {
                self.by_service.remove(&service);
            }
        }
    }

    /// One more outbound leads to its clusters.
    fn lead(&mut self, outbound: &Outbound) {
        for tags in &outbound.leads_to {
            let name: Arc<str> = names::service_cluster(tags).into();
            let called = self.clusters.entry(name.clone()).or_insert_with(|| Called {
                tags: tags.clone(),
                users: 0,
                groups: Vec::new(),
            });
            called.users += 1;
            if called.groups.is_empty() {
                self.loose.insert(name.clone());
            }
            let of_service = self.by_service.entry(service(tags)).or_default();
            of_service.clusters.insert(name);
            *of_service.led_from.entry(outbound.service.clone()).or_default() += 1;
        }
    }

    /// What is in `kept` comes back at once and stays in the set: a map that is not touched stays the same for all
    /// proxies.
    fn take_outbound(&mut self, name: &Arc<str>, kept: &[Group]) -> Option<Outbound> {
        let old = self.outbounds.remove(name)?;
        self.take_groups((Part::Outbound, name), &old.groups, kept);
        for tags in &old.leads_to {
            let cluster: Arc<str> = names::service_cluster(tags).into();
            if let Some(called) = self.clusters.get_mut(&cluster) {
                called.users -= 1;
                if called.users == 0 {
                    self.loose.insert(cluster);
                }
            }
            if let Some(of_service) = self.by_service.get_mut(&service(tags))
                && let Some(count) = of_service.led_from.get_mut(&old.service)
            {
                *count -= 1;
                if *count == 0 {
                    of_service.led_from.remove(&old.service);
                }
            }
        }
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
                if let Some(count) = self.needs.get_mut(need) {
                    *count -= 1;
                    if *count == 0 {
                        self.needs.remove(need);
                    }
                }
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
                    *self.needs.entry(need.clone()).or_default() += 1;
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

fn service(tags: &Tags) -> Arc<str> {
    tags.get(tags::SERVICE).map_or("", String::as_str).into()
}

pub(crate) fn clash(resource: &Arc<str>, other: &Arc<str>, address: &str) -> Fault {
    Fault::Clash { resource: resource.clone(), other: other.clone(), address: address.to_owned() }
}

/// Whether these are the same groups, which is told without looking into them.
pub(crate) fn same(old: &[Group], new: &[Group]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| Arc::ptr_eq(old, new))
}
