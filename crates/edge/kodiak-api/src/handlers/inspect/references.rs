//! References of Dataplanes and their targets: as a route, as a status, and as warnings on write.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use axum::response::Response;
use kodiak_inspection::reference_status::{self, Reference, ReferenceContext};
use kodiak_model::{
    ResourceKey,
    kinds::dataplane::{Dataplane, InboundState},
};
use kodiak_rules::Proxy;
use kodiak_store::Snapshot;
use kodiak_world::{Destination, World};

use super::{ComputedCall, answer, find};
use crate::{Api, ApiError, shapes};

/// `_references`
pub(crate) fn of_proxy(api: &Api, call: &ComputedCall) -> Result<Response, ApiError> {
    let (snapshot, key) = find(api, call)?;
    call.cancellation.check()?;
    let proxy = snapshot.world().proxy(&key);
    let references = proxy.map(|proxy| References::new(&snapshot).of(proxy)).unwrap_or_default();
    Ok(answer(&shapes::references::References::from(references)))
}

/// Warnings about the references of a Dataplane that is written. They do not fail the write: targets may be created later.
pub(crate) fn warnings(snapshot: &Snapshot, key: &ResourceKey) -> Vec<String> {
    let world = snapshot.world();
    let Some(proxy) = world.get(key).and_then(|resource| resource.proxy()) else { return Vec::new() };
    let is_served =
        |name: &str| world.proxies(&key.mesh).any(|proxy| served_by(&proxy.dataplane).any(|service| service == name));
    let found = of(world, proxy, &is_served).into_iter();
    found.filter_map(|one| Some(format!("{}: {}", one.path, one.trouble?.message))).collect()
}

/// Resolves the references of many Dataplanes, and collects the services of each mesh once.
pub(crate) struct References<'a> {
    world: &'a World,
    served: RefCell<BTreeMap<Arc<str>, BTreeSet<String>>>,
}

impl<'a> References<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        Self { world: snapshot.world(), served: RefCell::default() }
    }

    /// References with problems. `None` when there are none, and for kinds other than Dataplane.
    pub(crate) fn status(&self, key: &ResourceKey) -> Option<shapes::references::References> {
        let mut references = self.of(self.world.get(key)?.proxy()?);
        references.retain(|reference| reference.trouble.is_some());
        (!references.is_empty()).then(|| references.into())
    }

    fn of(&self, proxy: &Proxy) -> Vec<Reference> {
        let is_served = |name: &str| {
            let mut served = self.served.borrow_mut();
            let mesh = &proxy.mesh;
            served.entry(mesh.clone()).or_insert_with(|| all_served(self.world, mesh)).contains(name)
        };
        of(self.world, proxy, &is_served)
    }
}

fn of(world: &World, proxy: &Proxy, is_served: &dyn Fn(&str) -> bool) -> Vec<Reference> {
    let mode = world.mesh_services_mode(&proxy.mesh);
    if !reference_status::has_references(&proxy.dataplane, mode) {
        return Vec::new();
    }
    let (destinations, objects) = destinations(world, &proxy.mesh, &proxy.dataplane);
    let context = ReferenceContext {
        mode,
        destinations: &destinations,
        objects,
        is_served,
        redirected: world.redirects_outbound(proxy),
    };
    reference_status::of(proxy, context)
}

/// Candidates for the reference, and their total number.
fn destinations(world: &World, mesh: &str, spec: &Dataplane) -> (Vec<Arc<Destination>>, usize) {
    let (mut found, mut objects) = (Vec::new(), 0);
    for destination in world.destinations(mesh) {
        objects += 1;
        if reference_status::could_be_meant(spec, &destination.name, &destination.labels) {
            found.push(destination.clone());
        }
    }
    (found, objects)
}

fn all_served(world: &World, mesh: &str) -> BTreeSet<String> {
    world.proxies(mesh).flat_map(|proxy| served_by(&proxy.dataplane).map(str::to_owned)).collect()
}

fn served_by(spec: &Dataplane) -> impl Iterator<Item = &str> {
    let inbounds = spec.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored);
    inbounds.filter_map(|inbound| inbound.service())
}
