//! The outbound configuration that all proxies of one class share.
//!
//! A class has outbounds, which are listeners and DNS records, and the clusters that these reference: an outbound's own,
//! and the backends of its routes. A cluster stays as long as an outbound references it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_policies::{mesh_proxy_patch::ProxyPatches, target::PortRef};
use kodiak_xds::{
    Built, build_assignment, build_cluster, build_listener, build_secret,
    check::{self, Fault},
    collector, direct_access, endpoints, external,
    input::{DnsRecord, OutboundListener},
    names::{self, Naming},
    outbound, secrets,
};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use crate::{
    cache::{Cache, Group},
    class_key::ClassKey,
    collections::{Collection, CountedSet, PrunedMap},
    hostnames,
    interest::Interest,
    patched::Origin,
    plan::{self, Sources},
    rules::Rules,
    target::{ClusterTarget, Target, Targets, Touched},
};

#[derive(Clone, Default)]
pub(crate) struct Class {
    pub(crate) members: BTreeSet<Arc<str>>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) set: ResourceSet,
    pub(crate) records: Arc<[DnsRecord]>,
    /// Secrets of the proxy that resources of the class reference.
    pub(crate) needed_secrets: CountedSet<(TypeUrl, Arc<str>)>,
    /// By address, the listener that binds it.
    pub(crate) bound_addresses: BTreeMap<String, Arc<str>>,
    pub(crate) faults: BTreeMap<(Part, Arc<str>), Vec<Fault>>,
    /// With modifications, references to resources that the class does not have, each with its fault: those of a proxy may
    /// resolve them.
    pub(crate) unresolved: Vec<((TypeUrl, Arc<str>), Fault)>,
    /// By the name of their own cluster.
    outbounds: BTreeMap<Arc<str>, Outbound>,
    clusters: BTreeMap<Arc<str>, ClusterState>,
    /// Parts of the class that depend on a target.
    by_target: PrunedMap<Target, Dependants>,
    /// By backend reference of a route, the targets of the outbounds that have it, whether it resolves or not.
    by_backend_ref: PrunedMap<PortRef, CountedSet<Target>>,
    /// Clusters that are not built yet, and those that lost their last reference.
    pending: BTreeSet<Arc<str>>,
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
    /// Before modifications. Empty without modifications.
    generated: Vec<(Origin, Group)>,
    records: Vec<DnsRecord>,
    cluster_targets: BTreeSet<ClusterTarget>,
    backend_refs: BTreeSet<PortRef>,
    /// Without listeners: the destinations whose permissions would bring them.
    trimmed: BTreeSet<Target>,
}

/// A cluster and its endpoints.
#[derive(Clone)]
struct ClusterState {
    target: ClusterTarget,
    /// The number of outbounds that reference it.
    references: usize,
    groups: Vec<Group>,
    /// Before modifications, with endpoints that no cluster uses after them. Empty without modifications.
    generated: Vec<(Origin, Group)>,
}

#[derive(Clone, Default)]
struct Dependants {
    outbounds: BTreeSet<Arc<str>>,
    /// Targets whose outbounds reference a cluster of this one, or would if it admitted the class.
    referrers: CountedSet<Target>,
    clusters: BTreeSet<Arc<str>>,
}

impl Collection for Dependants {
    fn is_empty(&self) -> bool {
        let Self { outbounds, referrers, clusters } = self;
        outbounds.is_empty() && referrers.is_empty() && clusters.is_empty()
    }
}

impl Class {
    /// A copy for other proxies.
    pub(crate) fn without_members(&self) -> Self {
        Self { members: BTreeSet::new(), ..self.clone() }
    }

    /// All its resources.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        let of_clusters = self.clusters.values().flat_map(|cluster| &cluster.groups);
        self.outbounds.values().flat_map(|outbound| &outbound.groups).chain(of_clusters)
    }

    /// All its resources before modifications. Empty without modifications.
    pub(crate) fn generated(&self) -> impl Iterator<Item = &(Origin, Group)> {
        let of_clusters = self.clusters.values().flat_map(|cluster| &cluster.generated);
        self.outbounds.values().flat_map(|outbound| &outbound.generated).chain(of_clusters)
    }

    /// Destinations that it calls, or would call if they existed. `None`: any destination may be one of them.
    pub(crate) fn interests(&self, key: &ClassKey) -> Option<BTreeSet<Interest>> {
        let mut interests: BTreeSet<Interest> = key.named_targets()?.into_iter().map(Interest::Target).collect();
        if key.permitted.is_some() {
            // It may call a destination because of a route alone.
            interests.extend(self.rules.routed()?.cloned());
        }
        interests.extend(self.by_backend_ref.keys().map(Interest::of_backend));
        interests.extend(self.by_target.keys().cloned().map(Interest::Target));
        Some(interests)
    }

    /// Rebuilds whatever depends on the touched targets. Returns whether resources or DNS records changed.
    pub(crate) fn update(
        &mut self,
        key: &ClassKey,
        from: Sources<'_>,
        touched: Touched<'_>,
        cache: &mut Cache,
    ) -> bool {
        let rules = self.rules.clone();
        let to_plan = self.targets_to_plan(key, from, touched);
        let wanted = plan::outbounds(key, &rules, from, to_plan.touched());
        let gone: Vec<Arc<str>> = match &to_plan {
            Targets::All => self.outbounds.keys().filter(|name| !wanted.contains_key(*name)).cloned().collect(),
            Targets::Some(targets) => {
                let known = targets.iter().filter_map(|target| self.by_target.get(target));
                let known = known.flat_map(|each| &each.outbounds);
                known.filter(|name| !wanted.contains_key(*name)).cloned().collect()
            }
        };
        let mut records_changed = false;
        let mut changed = false;
        for name in &gone {
            if let Some(old) = self.remove_outbound(name, &[], from.view.naming) {
                changed = true;
                records_changed |= !old.records.is_empty();
            }
        }
        let mut new_outbounds = Vec::new();
        for (name, plan::Outbound { target, listeners, records, cluster_targets, backend_refs, trimmed }) in wanted {
            let mut generated = Vec::new();
            let mut listen = |listener: &OutboundListener| {
                let group = cache.listeners.get(listener, |input| vec![build_listener(&outbound::listener(input))]);
                let origin =
                    if names::is_direct_access(&listener.cluster) { Origin::DirectAccess } else { Origin::Outbound };
                if key.patches.is_some() {
                    generated.push((origin, group.clone()));
                }
                cache.patched.get(key.patches.as_ref(), origin, group)
            };
            let new = Outbound {
                target,
                groups: listeners.iter().map(&mut listen).collect(),
                generated,
                records,
                cluster_targets,
                backend_refs,
                trimmed,
            };
            let old = self.outbounds.get(&name);
            let known = old.map_or(&[][..], |old| &old.records);
            let same_generated = old.is_some_and(|old| same_generated(&old.generated, &new.generated));
            let same_references = old.is_some_and(|old| {
                same_generated
                    && (&old.cluster_targets, &old.backend_refs, &old.trimmed)
                        == (&new.cluster_targets, &new.backend_refs, &new.trimmed)
            });
            if same_references && old.is_some_and(|old| same_groups(&old.groups, &new.groups)) && known == new.records {
                continue;
            }
            changed = true;
            records_changed |= known != new.records;
            // References first: a cluster that old and new share must not be removed and built again.
            self.reference_clusters(&name, &new, from.view.naming);
            self.remove_outbound(&name, &new.groups, from.view.naming);
            self.index_outbound(&name, &new.target);
            new_outbounds.push((name, new));
        }
        changed |= self.update_clusters(key, from, touched, cache);
        for (name, new) in new_outbounds {
            self.insert_outbound(name, new);
        }
        if records_changed {
            self.collect_records();
        }
        if changed && key.patches.is_some() {
            self.collect_unresolved();
        }
        changed
    }

    /// The touched targets, and those whose outbounds reference them or may from now on.
    fn targets_to_plan(&self, key: &ClassKey, from: Sources<'_>, touched: Touched<'_>) -> Targets {
        let Touched::Some(targets) = touched else { return Targets::All };
        // A list is short, and its references may resolve to any resource.
        if key.reach.lists_objects() && touched.has_objects() {
            return Targets::All;
        }
        let mut all = targets.clone();
        for target in targets {
            all.extend(self.by_target.get(target).into_iter().flat_map(|each| each.referrers.iter().cloned()));
            if let Target::Object(kri) = target {
                let matching =
                    self.by_backend_ref.iter().filter(|(written, _)| from.objects.may_resolve_to(written, kri));
                all.extend(matching.flat_map(|(_, outbounds)| outbounds.iter().cloned()));
            }
        }
        Targets::Some(all)
    }

    /// Builds new and touched clusters, and removes those without references.
    fn update_clusters(&mut self, key: &ClassKey, from: Sources<'_>, touched: Touched<'_>, cache: &mut Cache) -> bool {
        let rules = self.rules.clone();
        let visited: BTreeSet<Arc<str>> = match touched {
            Touched::All => self.clusters.keys().cloned().collect(),
            Touched::Some(targets) => {
                let known = targets.iter().filter_map(|target| self.by_target.get(target));
                let touched = known.flat_map(|each| each.clusters.iter().cloned());
                touched.chain(self.pending.iter().cloned()).collect()
            }
        };
        self.pending.clear();
        let mut changed = false;
        for name in visited {
            let Some(state) = self.clusters.get(&name) else { continue };
            if state.references == 0 {
                changed = true;
                self.drop_cluster(&name);
                continue;
            }
            let planned = plan::cluster(key, &rules, from, &state.target);
            let (groups, generated) = build(&planned, key.patches.as_ref(), cache);
            if same_groups(&state.groups, &groups) && same_generated(&state.generated, &generated) {
                continue;
            }
            changed = true;
            let old = state.groups.clone();
            self.remove_groups((Part::Cluster, &name), &old, &groups);
            self.insert_groups((Part::Cluster, &name), &groups);
            if let Some(state) = self.clusters.get_mut(&name) {
                state.groups = groups;
                state.generated = generated;
            }
        }
        changed
    }

    fn drop_cluster(&mut self, name: &Arc<str>) {
        let Some(state) = self.clusters.remove(name) else { return };
        self.remove_groups((Part::Cluster, name), &state.groups, &[]);
        self.by_target.shrink(&state.target.destination(), |dependants| {
            dependants.clusters.remove(name);
        });
    }

    /// Counts the references of an outbound to its clusters.
    fn reference_clusters(&mut self, name: &Arc<str>, outbound: &Outbound, naming: Naming) {
        for cluster_target in &outbound.cluster_targets {
            let cluster = cluster_target.cluster_name(naming);
            let state = self.clusters.entry(cluster.clone()).or_insert_with(|| ClusterState {
                target: cluster_target.clone(),
                references: 0,
                groups: Vec::new(),
                generated: Vec::new(),
            });
            state.references += 1;
            // A port that was renamed may keep the name of its cluster.
            if state.groups.is_empty() || state.target != *cluster_target {
                state.target = cluster_target.clone();
                self.pending.insert(cluster.clone());
            }
            let of_target = self.by_target.grow(cluster_target.destination());
            of_target.clusters.insert(cluster);
            of_target.referrers.add(outbound.target.clone());
        }
        for destination in &outbound.trimmed {
            self.by_target.grow(destination.clone()).referrers.add(outbound.target.clone());
        }
        for written in &outbound.backend_refs {
            self.by_backend_ref.grow(written.clone()).add(outbound.target.clone());
        }
        self.index_outbound(name, &outbound.target);
    }

    fn index_outbound(&mut self, name: &Arc<str>, target: &Target) {
        self.by_target.grow(target.clone()).outbounds.insert(name.clone());
    }

    /// Resources of `kept` stay in the set, because the caller inserts them again: an untouched map stays shared by all
    /// proxies.
    fn remove_outbound(&mut self, name: &Arc<str>, kept: &[Group], naming: Naming) -> Option<Outbound> {
        let old = self.outbounds.remove(name)?;
        self.remove_groups((Part::Outbound, name), &old.groups, kept);
        for cluster_target in &old.cluster_targets {
            let cluster = cluster_target.cluster_name(naming);
            if let Some(state) = self.clusters.get_mut(&cluster) {
                state.references -= 1;
                if state.references == 0 {
                    self.pending.insert(cluster);
                }
            }
            self.by_target.shrink(&cluster_target.destination(), |dependants| dependants.referrers.remove(&old.target));
        }
        for destination in &old.trimmed {
            self.by_target.shrink(destination, |dependants| dependants.referrers.remove(&old.target));
        }
        for written in &old.backend_refs {
            self.by_backend_ref.shrink(written, |outbounds| outbounds.remove(&old.target));
        }
        self.by_target.shrink(&old.target, |dependants| {
            dependants.outbounds.remove(name);
        });
        Some(old)
    }

    fn insert_outbound(&mut self, name: Arc<str>, new: Outbound) {
        self.insert_groups((Part::Outbound, &name), &new.groups);
        self.outbounds.insert(name, new);
    }

    fn remove_groups(&mut self, (part, name): (Part, &Arc<str>), old: &[Group], kept: &[Group]) {
        self.faults.remove(&(part, name.clone()));
        let goes = |group: &&Group| !kept.iter().any(|kept| Arc::ptr_eq(kept, group));
        for built in old.iter().filter(goes).flat_map(|group| group.iter()) {
            self.set.remove(built.type_url, &built.encoded.name);
        }
        for built in old.iter().flat_map(|group| group.iter()) {
            for need in built.links.needs.iter().filter(|need| !has(old, need)) {
                self.needed_secrets.remove(need);
            }
            if let Some(address) = &built.links.binds
                && self.bound_addresses.get(address) == Some(&built.encoded.name)
            {
                self.bound_addresses.remove(address);
            }
        }
    }

    /// Secrets come with the cluster that references them, or belong to the proxy. All other references must resolve here:
    /// clusters are inserted before the listeners that reference them.
    fn insert_groups(&mut self, (part, name): (Part, &Arc<str>), new: &[Group]) {
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
                    if !has(new, need) {
                        self.needed_secrets.add(need.clone());
                    }
                } else if !self.set.of(*type_url).contains_key(needed) {
                    faults.push(Fault::Dangling {
                        resource: built.encoded.name.clone(),
                        kind: *type_url,
                        name: needed.clone(),
                    });
                }
            }
            if let Some(address) = &built.links.binds {
                match self.bound_addresses.get(address) {
                    Some(other) => faults.push(address_clash(&built.encoded.name, other, address)),
                    None => drop(self.bound_addresses.insert(address.clone(), built.encoded.name.clone())),
                }
            }
        }
        if !faults.is_empty() {
            self.faults.insert((part, name.clone()), faults);
        }
    }

    /// Replaces the faults of single references: modifications remove clusters, and add references.
    fn collect_unresolved(&mut self) {
        self.faults.retain(|_, faults| {
            faults.retain(|fault| !matches!(fault, Fault::Dangling { .. }));
            !faults.is_empty()
        });
        let needs = self
            .groups()
            .flat_map(|group| group.iter())
            .flat_map(|built| built.links.needs.iter().map(move |need| (built, need)));
        let missing = needs
            .filter(|(_, (type_url, name))| *type_url != TypeUrl::Secret && !self.set.of(*type_url).contains_key(name));
        self.unresolved = missing
            .map(|(built, need)| (need.clone(), check::unresolved(&built.encoded.name, &built.links, need)))
            .collect();
    }

    fn collect_records(&mut self) {
        self.records =
            hostnames::table(self.outbounds.values().flat_map(|each| each.records.iter().cloned()).collect());
    }
}

/// Resources of a cluster, and of its endpoints if they are discovered by EDS. The second are those before modifications.
fn build(
    planned: &plan::Cluster,
    patches: Option<&Arc<ProxyPatches>>,
    cache: &mut Cache,
) -> (Vec<Group>, Vec<(Origin, Group)>) {
    let (origin, group) = match planned {
        plan::Cluster::Discovered { cluster, .. } => {
            (Origin::Outbound, cache.clusters.get(cluster, |input| vec![build_cluster(&outbound::cluster(input))]))
        }
        plan::Cluster::DirectAccess(cluster) => (
            Origin::DirectAccess,
            cache.direct_access.get(cluster, |input| vec![build_cluster(&direct_access::cluster(input))]),
        ),
        plan::Cluster::Collector(cluster) => (
            Origin::of_collector(&cluster.collector.name),
            cache.collectors.get(cluster, |input| vec![build_cluster(&collector::cluster(input))]),
        ),
        plan::Cluster::External(cluster) => {
            (Origin::Outbound, cache.external.get(cluster, |input| vec![build_cluster(&external::cluster(input))]))
        }
    };
    let mut generated = Vec::new();
    if patches.is_some() {
        generated.push((origin, group.clone()));
    }
    let mut groups = vec![cache.patched.get(patches, origin, group)];
    if let plan::Cluster::Discovered { assignment, validation, .. } = planned {
        let endpoints =
            cache.assignments.get(assignment, |input| vec![build_assignment(&endpoints::assignment(input))]);
        let secret = validation.as_ref().map(|validation| {
            cache.validations.get(validation, |input| vec![build_secret(&secrets::validation(input))])
        });
        // Envoy subscribes neither to endpoints nor to secrets of a cluster if modifications removed or replaced it.
        let added = patches.map(|patches| cache.patched.added(patches));
        let clusters: Vec<Group> = groups.iter().cloned().chain(added).collect();
        let needs = |built: &Built| {
            let mut needs = clusters.iter().flat_map(|group| group.iter()).flat_map(|built| &built.links.needs);
            needs.any(|(type_url, name)| *type_url == built.type_url && *name == built.encoded.name)
        };
        let parts: Vec<Group> = [endpoints].into_iter().chain(secret).collect();
        if patches.is_some() {
            generated.extend(parts.iter().map(|group| (origin, group.clone())));
        }
        groups.extend(parts.into_iter().filter(|group| patches.is_none() || group.iter().any(needs)));
    }
    (groups, generated)
}

/// Whether one of the groups has a resource.
fn has(groups: &[Group], (type_url, name): &(TypeUrl, Arc<str>)) -> bool {
    let mut all = groups.iter().flat_map(|group| group.iter());
    all.any(|built| built.type_url == *type_url && built.encoded.name == *name)
}

pub(crate) fn address_clash(resource: &Arc<str>, other: &Arc<str>, address: &str) -> Fault {
    Fault::Clash { resource: resource.clone(), other: other.clone(), address: address.to_owned() }
}

fn same_generated(old: &[(Origin, Group)], new: &[(Origin, Group)]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|((_, old), (_, new))| Arc::ptr_eq(old, new))
}

/// Compares pointers: the cache returns the same group for the same input.
pub(crate) fn same_groups(old: &[Group], new: &[Group]) -> bool {
    old.len() == new.len() && old.iter().zip(new).all(|(old, new)| Arc::ptr_eq(old, new))
}
