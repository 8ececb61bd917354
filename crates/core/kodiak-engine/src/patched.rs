//! Resources as MeshProxyPatch changes them, after they were built.
//!
//! Modifications change the decoded message of a resource. Equal proxies share patched resources as they share others:
//! each group is patched once for each list of modifications. A group that no modification changes is returned as it is.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use kodiak_envoy::{
    UnpackError,
    envoy::{config::listener::v3::Listener, service::discovery::v3::DiscoveryResponse},
    unpack,
};
use kodiak_policies::mesh_proxy_patch::{self, Effect, ProxyPatches, Resource, ResourceType, Step};
use kodiak_xds::{
    Built, build_cluster, build_listener,
    check::{Links, PatchTrace},
};
use kodiak_xds_stream::{Encoded, TypeUrl};
use prost::Message as _;

use crate::cache::Group;

/// Part of the configuration that a resource belongs to, for the matches of modifications.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Inbound,
    Outbound,
    /// Connections to unknown destinations.
    Transparent,
    DirectAccess,
    Admin,
    Probe,
    Dns,
    AccessLog,
    Trace,
    Metric,
}

impl Origin {
    /// Origin of the cluster of a collector. Names of these clusters start with the kind of the policy.
    pub(crate) fn of_collector(cluster: &str) -> Self {
        if cluster.starts_with("meshtrace") {
            Self::Trace
        } else if cluster.starts_with("meshmetric") {
            Self::Metric
        } else {
            Self::AccessLog
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Inbound => "inbound",
            Self::Outbound => "outbound",
            Self::Transparent => "transparent",
            Self::DirectAccess => "direct-access",
            Self::Admin => "admin",
            Self::Probe => "probe",
            Self::Dns => "dns",
            Self::AccessLog => "mesh-access-log",
            Self::Trace => "mesh-trace",
            Self::Metric => "mesh-metric",
        }
    }
}

/// Patched groups, by the group before and the modifications.
#[derive(Default)]
pub(crate) struct PatchedGroups {
    groups: HashMap<Key, Entry>,
    added: HashMap<Arc<ProxyPatches>, Group>,
    /// Number of resources encoded so far.
    pub(crate) encoded: u64,
    /// Number of entries after the last sweep.
    live: usize,
}

/// The last member is the address of the group before, which the entry keeps alive.
type Key = (Arc<ProxyPatches>, Origin, usize);

struct Entry {
    before: Group,
    after: Group,
}

impl PatchedGroups {
    /// The same group if there are no modifications, or if none changes it.
    pub(crate) fn get(&mut self, patches: Option<&Arc<ProxyPatches>>, origin: Origin, group: Group) -> Group {
        let Some(patches) = patches else { return group };
        let key = (patches.clone(), origin, Arc::as_ptr(&group).cast::<()>().addr());
        if let Some(known) = self.groups.get(&key) {
            return known.after.clone();
        }
        let after = self.patch(patches, origin, &group);
        self.groups.insert(key, Entry { before: group, after: after.clone() });
        after
    }

    /// Resources that modifications add.
    pub(crate) fn added(&mut self, patches: &Arc<ProxyPatches>) -> Group {
        if let Some(known) = self.added.get(patches) {
            return known.clone();
        }
        let steps = patches.steps();
        let added = steps.iter().enumerate().filter_map(|(n, step)| {
            let resource = step.added()?;
            match add(step, &steps[n + 1..], resource) {
                Version::Present(built) => Some(built),
                Version::Removed(_) | Version::Absent => None,
            }
        });
        let added: Group = added.collect();
        self.encoded += added.len() as u64;
        self.added.insert(patches.clone(), added.clone());
        added
    }

    fn patch(&mut self, patches: &ProxyPatches, origin: Origin, group: &Group) -> Group {
        let mut changed = false;
        let mut after = Vec::with_capacity(group.len());
        for built in group.iter() {
            match patch_one(patches.steps(), origin, built) {
                Patched::Same => after.push(built.clone()),
                Patched::Removed { .. } => changed = true,
                Patched::Changed(built) => {
                    changed = true;
                    self.encoded += 1;
                    after.push(built);
                }
                Patched::Failed { at, error, .. } => {
                    changed = true;
                    after.push(failed(built, at, &error));
                }
            }
        }
        if changed { after.into() } else { group.clone() }
    }

    /// Evicts groups that no proxy uses. Must come before the sweep of the groups that were patched.
    pub(crate) fn sweep(&mut self) {
        const FEW: usize = 64;
        if self.groups.len() > 2 * self.live + FEW {
            self.groups.retain(|_, entry| entry.is_used());
            self.live = self.groups.len();
            self.added.retain(|_, group| Arc::strong_count(group) > 1);
        }
    }
}

impl Entry {
    fn is_used(&self) -> bool {
        // The entry has an unchanged group twice, and the cache of built resources has it too.
        let unused = if Arc::ptr_eq(&self.before, &self.after) { 3 } else { 1 };
        Arc::strong_count(&self.after) > unused
    }
}

/// A resource as modifications make it.
pub(crate) enum Version {
    Present(Built),
    /// By this modification.
    Removed(Arc<str>),
    /// It is neither generated nor added.
    Absent,
}

impl Version {
    pub(crate) fn present(self) -> Option<Built> {
        match self {
            Self::Present(built) => Some(built),
            Self::Removed(_) | Self::Absent => None,
        }
    }
}

/// The resource with this type and name as `patches` make it, without those at `excluded`. `generated` is the resource
/// before modifications.
pub(crate) fn version(
    patches: &ProxyPatches,
    excluded: &BTreeSet<Arc<str>>,
    generated: Option<(Origin, &Built)>,
    (type_url, name): &(TypeUrl, Arc<str>),
) -> Version {
    let steps: Vec<&Step> = patches.steps().iter().filter(|step| !excluded.contains(step.at())).collect();
    let is_it = |resource: &Resource| type_of(resource) == *type_url && *resource.name() == **name;
    let added = steps.iter().enumerate().rev().find_map(|(n, step)| {
        let resource = step.added().filter(is_it)?;
        Some(add(step, steps[n + 1..].iter().copied(), resource))
    });
    if let Some(added) = added {
        return added;
    }
    let Some((origin, generated)) = generated else { return Version::Absent };
    match patch_one(steps, origin, generated) {
        Patched::Same => Version::Present(generated.clone()),
        Patched::Removed { at } => Version::Removed(at),
        Patched::Changed(built) => Version::Present(built),
        Patched::Failed { at, error, .. } => Version::Present(failed(generated, at, &error)),
    }
}

/// The resource that a step adds, with the modifications that follow.
fn add<'a>(step: &Step, following: impl IntoIterator<Item = &'a Step>, resource: Resource) -> Version {
    let changes = Changes { at: Some(step.at()), links: Links::default() };
    match changes.apply(following, resource, mesh_proxy_patch::ADDED) {
        Patched::Changed(built) => Version::Present(built),
        Patched::Same => Version::Absent,
        Patched::Removed { at } => Version::Removed(at),
        Patched::Failed { at, error, resource } => Version::Present(failed(&build(&resource), at, &error)),
    }
}

enum Patched {
    Same,
    Removed { at: Arc<str> },
    Changed(Built),
    Failed { at: Arc<str>, error: String, resource: Resource },
}

fn patch_one<'a>(steps: impl IntoIterator<Item = &'a Step, IntoIter: Clone>, origin: Origin, built: &Built) -> Patched {
    let steps = steps.into_iter();
    let resource_type = match built.type_url {
        TypeUrl::Cluster => ResourceType::Cluster,
        TypeUrl::Listener => ResourceType::Listener,
        TypeUrl::Endpoint | TypeUrl::Route | TypeUrl::Secret => return Patched::Same,
    };
    let origin = origin.text();
    if !steps.clone().any(|step| step.may_select(resource_type, &built.encoded.name, origin)) {
        return Patched::Same;
    }
    let resource = decode(resource_type, &built.encoded).expect("we encoded this resource from the same type");
    Changes { at: None, links: (*built.links).clone() }.apply(steps, resource, origin)
}

/// Runs modifications on one resource, and keeps which of them caused what.
struct Changes<'a> {
    /// The step that added the resource.
    at: Option<&'a Arc<str>>,
    /// Of the resource before.
    links: Links,
}

impl Changes<'_> {
    fn apply<'s>(self, steps: impl IntoIterator<Item = &'s Step>, mut resource: Resource, origin: &str) -> Patched {
        let Self { at, mut links } = self;
        let original = resource.clone();
        let mut trace = PatchTrace::default();
        let mut faults: Vec<(Arc<str>, String)> = Vec::new();
        let mut record = |resource: &Resource, at: &Arc<str>, links: &mut Links| {
            let now = links_of(resource);
            let needs = now.needs.iter().filter(|need| !links.needs.contains(need));
            trace.needs.extend(needs.map(|need| (need.clone(), at.clone())));
            if now.binds != links.binds {
                trace.binds = Some(at.clone());
            }
            faults.extend(
                now.faults
                    .iter()
                    .filter(|fault| !links.faults.contains(fault))
                    .map(|fault| (at.clone(), fault.clone())),
            );
            *links = now;
        };
        if let Some(at) = at {
            record(&resource, at, &mut links);
        }
        for step in steps {
            let before = resource.clone();
            match step.apply(&mut resource, origin) {
                Err(error) => return Patched::Failed { at: step.at().clone(), error, resource: before },
                Ok(Effect::Removed) => return Patched::Removed { at: step.at().clone() },
                Ok(Effect::Stays) if resource == before => (),
                Ok(Effect::Stays) => record(&resource, step.at(), &mut links),
            }
        }
        if at.is_none() && resource == original {
            return Patched::Same;
        }
        // A later step may have repaired what an earlier one broke.
        trace.faults =
            links.faults.iter().filter_map(|fault| faults.iter().rev().find(|(_, of)| of == fault)).cloned().collect();
        links.faults.retain(|fault| !trace.faults.iter().any(|(_, traced)| traced == fault));
        for (_, fault) in &mut trace.faults {
            *fault = about(&resource, fault);
        }
        links.patch = Some(Arc::new(trace));
        Patched::Changed(Built { links: Arc::new(links), ..build(&resource) })
    }
}

/// The resource before a step that failed, with the error.
fn failed(built: &Built, at: Arc<str>, error: &str) -> Built {
    let kind = if built.type_url == TypeUrl::Cluster { "cluster" } else { "listener" };
    let fault = format!("{kind} {:?}: {error}", built.encoded.name);
    let trace = PatchTrace { faults: vec![(at, fault)], ..PatchTrace::default() };
    Built { links: Arc::new(Links { patch: Some(Arc::new(trace)), ..(*built.links).clone() }), ..built.clone() }
}

fn about(resource: &Resource, fault: &str) -> String {
    match resource {
        Resource::Cluster(cluster) => format!("cluster {:?}: {fault}", cluster.name),
        Resource::Listener(listener) => format!("listener {:?}: {fault}", listener.name),
    }
}

fn build(resource: &Resource) -> Built {
    match resource {
        Resource::Cluster(cluster) => build_cluster(cluster),
        Resource::Listener(listener) => build_listener(listener),
    }
}

fn links_of(resource: &Resource) -> Links {
    match resource {
        Resource::Cluster(cluster) => Links::of_cluster(cluster),
        Resource::Listener(listener) => Links::of_listener(listener),
    }
}

fn type_of(resource: &Resource) -> TypeUrl {
    match resource {
        Resource::Cluster(_) => TypeUrl::Cluster,
        Resource::Listener(_) => TypeUrl::Listener,
    }
}

/// A published resource with its references. `None` if the bytes are of another type.
pub(crate) fn read(type_url: TypeUrl, encoded: &Arc<Encoded>) -> Option<Built> {
    let links = match type_url {
        TypeUrl::Cluster => links_of(&decode(ResourceType::Cluster, encoded)?),
        TypeUrl::Listener => links_of(&decode(ResourceType::Listener, encoded)?),
        TypeUrl::Endpoint | TypeUrl::Route | TypeUrl::Secret => Links::default(),
    };
    Some(Built { type_url, encoded: encoded.clone(), links: Arc::new(links) })
}

/// The message of an encoded listener. `None` if the bytes are of another type.
pub(crate) fn listener(encoded: &Encoded) -> Option<Box<Listener>> {
    match decode(ResourceType::Listener, encoded)? {
        Resource::Listener(listener) => Some(listener),
        Resource::Cluster(_) => None,
    }
}

/// The message of an encoded resource. `None` if the bytes are of another type.
fn decode(resource_type: ResourceType, encoded: &Encoded) -> Option<Resource> {
    let response = DiscoveryResponse::decode(encoded.sotw.clone()).ok()?;
    let any = response.resources.first()?;
    let resource: Result<Resource, UnpackError> = match resource_type {
        ResourceType::Cluster => unpack(any).map(Box::new).map(Resource::Cluster),
        ResourceType::Listener => unpack(any).map(Box::new).map(Resource::Listener),
    };
    resource.ok()
}
