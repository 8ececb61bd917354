//! A mesh as questions look at it, made from the store and kept while the mesh stays as it is.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use kodiak_catalog::{destination_of, spec_of};
use kodiak_kinds::kinds;
use kodiak_model::{
    Kind, PortSection, ResourceKey,
    kinds::{
        dataplane::{self, Dataplane},
        mesh::{self, Mesh},
        mesh_gateway::{self, MeshGateway},
        mesh_identity::{MeshIdentity, MeshIdentityStatus},
    },
    policy::{Body, ConfShape},
};
use kodiak_rules::{Book, Gateway, Policy, Proxy, Resource, Resources};
use kodiak_store::{Record, Snapshot};
use kodiak_views::{
    destination,
    inspect::{MeshView, spiffe_id::Identity},
};

/// The meshes that were asked about, as they were.
#[derive(Default)]
pub(crate) struct Meshes(Mutex<BTreeMap<String, Kept>>);

struct Kept {
    /// The store's revision when it was last seen to be the same.
    revision: u64,
    print: Print,
    view: Arc<MeshView>,
}

/// Changes whenever a resource that is looked at comes, changes or goes: writing raises the newest revision, and what
/// goes without another coming makes them fewer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Print {
    count: usize,
    newest: u64,
}

impl Meshes {
    pub(crate) fn view(&self, snapshot: &Snapshot, mesh: &str) -> Arc<MeshView> {
        let print = {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = kept.get_mut(mesh);
            if let Some(kept) = kept.as_ref().filter(|kept| kept.revision == snapshot.revision()) {
                return kept.view.clone();
            }
            let print = Print::of(snapshot, mesh);
            if let Some(kept) = kept.filter(|kept| kept.print == print) {
                kept.revision = snapshot.revision();
                return kept.view.clone();
            }
            print
        };
        // Others may ask about other meshes meanwhile.
        let view = Arc::new(load(snapshot, mesh));
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|name, _| snapshot.get(&ResourceKey::global(mesh::KIND.name, name)).is_some());
        kept.insert(mesh.to_owned(), Kept { revision: snapshot.revision(), print, view: view.clone() });
        view
    }
}

impl Print {
    fn of(snapshot: &Snapshot, mesh: &str) -> Self {
        let own = snapshot.get(&ResourceKey::global(mesh::KIND.name, mesh));
        let records = own.into_iter().chain(looked_at().flat_map(|kind| snapshot.list_in(kind, mesh)));
        let mut print = Self { count: 0, newest: 0 };
        for record in records {
            print.count += 1;
            print.newest = print.newest.max(record.revision);
        }
        print
    }
}

/// The kinds in a mesh that answers are made from.
fn looked_at() -> impl Iterator<Item = &'static str> {
    let others =
        ["Dataplane", "MeshService", "MeshExternalService", "MeshMultiZoneService", "MeshIdentity", "MeshGateway"];
    policies().into_iter().map(|kind| kind.name).chain(others)
}

/// In the order in which they are applied.
fn policies() -> Vec<&'static Kind> {
    let mut policies: Vec<_> = kinds().iter().filter(|kind| kind.is_policy()).collect();
    policies.sort_by_key(|kind| kind.policy.map(|facts| facts.order));
    policies
}

fn load(snapshot: &Snapshot, name: &str) -> MeshView {
    let own = snapshot.get(&ResourceKey::global(mesh::KIND.name, name));
    let spec = own.and_then(spec_of::<Mesh>).unwrap_or_default();
    let mut view = MeshView {
        mode: spec.mesh_services_mode(),
        kinds: policies(),
        book: Book::default(),
        resources: Resources::default(),
        proxies: BTreeMap::new(),
        destinations: Vec::new(),
        identities: snapshot.list_in("MeshIdentity", name).filter_map(identity).collect(),
    };
    if let Some(own) = own {
        view.resources.insert(resource(&mesh::KIND, own, Vec::new()));
    }
    for kind in policies() {
        for policy in snapshot.list_in(kind.name, name).filter_map(|record| policy(kind, record)) {
            if kind.policy.is_some_and(|facts| facts.conf == ConfShape::Routes) {
                view.resources.insert_route(policy.clone());
            }
            view.book.set_policy(&(kind.name, policy.name.clone()), Some(policy));
        }
    }
    for gateway in snapshot.list_in(mesh_gateway::KIND.name, name).filter_map(gateway) {
        view.book.set_gateway(&gateway.name.clone(), Some(Arc::new(gateway)));
    }
    for record in snapshot.list_in(dataplane::KIND.name, name) {
        let Some(spec) = spec_of::<Dataplane>(record) else { continue };
        let ResourceKey { mesh, name, .. } = record.key.clone();
        let proxy =
            Arc::new(Proxy { mesh, name, labels: record.labels.clone(), dataplane: Arc::new(spec), admission: None });
        view.book.set_proxy(&proxy.name, Some(proxy.clone()));
        view.proxies.insert(proxy.name.clone(), proxy);
    }
    for (kind, _) in destination::KINDS {
        for record in snapshot.list_in(kind.name, name) {
            let Some(destination) = destination_of(record) else { continue };
            let ports = destination.ports.iter();
            let ports = ports.map(|port| PortSection { port: port.port, section: port.section.clone() });
            view.resources.insert(resource(kind, record, ports.collect()));
            view.destinations.push(destination);
        }
    }
    view
}

/// `None`, with a word in the log, for what this version cannot read.
pub(super) fn policy(kind: &'static Kind, record: &Record) -> Option<Arc<Policy>> {
    let spec = serde_json::from_str(&record.spec);
    let body = spec.and_then(|spec| Body::read(kind.policy.as_ref().expect("only policies are asked for"), &spec));
    match body {
        Ok(body) => {
            let ResourceKey { mesh, name, .. } = record.key.clone();
            Some(Arc::new(Policy { kind, mesh, name, labels: record.labels.clone(), body }))
        }
        Err(error) => {
            tracing::warn!(resource = %record.key, %error, "Ignoring a stored policy that cannot be read.");
            None
        }
    }
}

pub(super) fn gateway(record: &Record) -> Option<Gateway> {
    let spec = Arc::new(spec_of::<MeshGateway>(record)?);
    let ResourceKey { mesh, name, .. } = record.key.clone();
    Some(Gateway { mesh, name, labels: record.labels.clone(), spec })
}

fn resource(kind: &'static Kind, record: &Record, ports: Vec<PortSection>) -> Resource {
    let ResourceKey { mesh, name, .. } = record.key.clone();
    Resource { kind, mesh, name, labels: record.labels.clone(), ports }
}

fn identity(record: &Record) -> Option<Identity> {
    let spec = Arc::new(spec_of::<MeshIdentity>(record)?);
    let status = record.status.as_deref().and_then(|text| serde_json::from_str::<MeshIdentityStatus>(text).ok());
    let conditions = status.unwrap_or_default().conditions;
    let ready = conditions.iter().any(|condition| condition.condition_type == "Ready" && condition.status == "True");
    let ResourceKey { mesh, name, .. } = record.key.clone();
    Some(Identity { mesh, name, labels: record.labels.clone(), spec, ready })
}
