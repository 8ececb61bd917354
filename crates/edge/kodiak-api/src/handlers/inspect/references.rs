//! What the references of Dataplanes mean: for those who ask, those who read and those who write them.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::response::Response;
use kodiak_catalog::{destination_of, spec_of};
use kodiak_model::{
    Kind, ResourceKey,
    kinds::{
        dataplane::{self, Dataplane, InboundState},
        dataplane_insight::DataplaneInsight,
        mesh::Mesh,
    },
};
use kodiak_rules::Proxy;
use kodiak_store::{Record, Snapshot};
use kodiak_views::{
    destination::{self, Destination},
    reference_status::{self, Context, Reference},
};
use serde::Serialize;

use super::{Asked, answer, find};
use crate::{Api, ApiError};

/// What a Dataplane without any of these texts need not be read for.
const FIELDS: [&str; 3] = ["\"backendRef\"", "\"reachableBackends\"", "\"reachableServices\""];

#[derive(Serialize)]
pub(crate) struct Status {
    references: Vec<Reference>,
}

/// `_references`
pub(crate) async fn of_proxy(api: Api, asked: Asked) -> Result<Response, ApiError> {
    let (snapshot, key) = find(&api, &asked)?;
    let record = snapshot.get(&key.dataplane()).expect("a proxy that is found has a Dataplane");
    Ok(answer(&Status { references: References::new(&snapshot).of(record) }))
}

/// What is wrong with the references of a Dataplane that is written. Nothing is refused for it: what they mean may come
/// later.
pub(crate) fn warnings(snapshot: &Snapshot, kind: &Kind, record: &Record) -> Vec<String> {
    if !is_looked_at(kind, record) {
        return Vec::new();
    }
    let is_served = |name: &str| is_served(snapshot, &record.key.mesh, name);
    let found = of(snapshot, record, &is_served).into_iter();
    found.filter_map(|one| Some(format!("{}: {}", one.path, one.trouble?.message))).collect()
}

/// For many Dataplanes at once: who serves what is found out once for each mesh.
pub(crate) struct References<'a> {
    snapshot: &'a Snapshot,
    served: RefCell<BTreeMap<Arc<str>, BTreeSet<String>>>,
}

impl<'a> References<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self { snapshot, served: RefCell::default() }
    }

    /// What is in trouble. `None` when all is well, and for other kinds.
    pub(crate) fn status(&self, kind: &Kind, record: &Record) -> Option<Status> {
        if !is_looked_at(kind, record) {
            return None;
        }
        let mut references = self.of(record);
        references.retain(|reference| reference.trouble.is_some());
        (!references.is_empty()).then_some(Status { references })
    }

    fn of(&self, record: &Record) -> Vec<Reference> {
        let is_served = |name: &str| {
            let mut served = self.served.borrow_mut();
            let mesh = &record.key.mesh;
            served.entry(mesh.clone()).or_insert_with(|| all_served(self.snapshot, mesh)).contains(name)
        };
        of(self.snapshot, record, &is_served)
    }
}

fn is_looked_at(kind: &Kind, record: &Record) -> bool {
    kind.name == dataplane::KIND.name && FIELDS.iter().any(|field| record.spec.contains(field))
}

fn of(snapshot: &Snapshot, record: &Record, is_served: &dyn Fn(&str) -> bool) -> Vec<Reference> {
    let Some(spec) = spec_of::<Dataplane>(record).filter(reference_status::has_references) else { return Vec::new() };
    let ResourceKey { mesh, name, .. } = record.key.clone();
    let (destinations, objects) = destinations(snapshot, &mesh, &spec);
    let of_mesh = snapshot.get(&ResourceKey::global("Mesh", &mesh)).and_then(spec_of::<Mesh>).unwrap_or_default();
    let insight = snapshot.get(&ResourceKey::in_mesh("DataplaneInsight", &mesh, &name));
    let metadata = insight.and_then(spec_of::<DataplaneInsight>).and_then(|insight| insight.metadata);
    let context = Context {
        mode: of_mesh.mesh_services_mode(),
        destinations: &destinations,
        objects,
        is_served,
        redirected: reference_status::redirected(&spec, metadata.as_ref()),
    };
    reference_status::of(
        &Proxy { mesh, name, labels: record.labels.clone(), dataplane: Arc::new(spec), admission: None },
        context,
    )
}

/// Those that may be meant, and how many there are.
fn destinations(snapshot: &Snapshot, mesh: &str, spec: &Dataplane) -> (Vec<Destination>, usize) {
    let (mut found, mut objects) = (Vec::new(), 0);
    for (kind, _) in destination::KINDS {
        for record in snapshot.list_in(kind.name, mesh) {
            objects += 1;
            if reference_status::could_be_meant(spec, &record.key.name, &record.labels) {
                found.extend(destination_of(record));
            }
        }
    }
    (found, objects)
}

fn all_served(snapshot: &Snapshot, mesh: &str) -> BTreeSet<String> {
    let dataplanes = snapshot.list_in(dataplane::KIND.name, mesh).filter_map(spec_of::<Dataplane>);
    dataplanes.flat_map(|spec| served_by(&spec).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// For one write among thousands of Dataplanes: only those are read that have the name somewhere.
fn is_served(snapshot: &Snapshot, mesh: &str, name: &str) -> bool {
    let text = serde_json::to_string(name).expect("a string is JSON");
    let mut naming = snapshot.list_in(dataplane::KIND.name, mesh).filter(|record| record.spec.contains(&text));
    naming
        .any(|record| spec_of::<Dataplane>(record).is_some_and(|spec| served_by(&spec).any(|service| service == name)))
}

fn served_by(spec: &Dataplane) -> impl Iterator<Item = &str> {
    let inbounds = spec.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored);
    inbounds.filter_map(|inbound| inbound.service())
}
