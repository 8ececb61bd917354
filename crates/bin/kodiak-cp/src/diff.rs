//! Configuration diff of the proxies of a mesh for a planned write.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use kodiak_api::inspect::{ConfigDiff, InspectError};
use kodiak_catalog::FileSources;
use kodiak_engine::{
    EngineChange, EngineSettings,
    difference::{Difference, Patches},
    offline::{AffectedProxies, OfflineMesh},
};
use kodiak_model::{Cancellation, ProxyKey, ResourceKey};
use kodiak_reconcilers::preview;
use kodiak_rollout::Rollout;
use kodiak_services::service_status;
use kodiak_store::Snapshot;
use kodiak_xds_stream::Snapshot as Published;
use serde_json::{Value, json};

use crate::{
    offline::{broken, metadata},
    stored_identities::StoredIdentities,
};

/// Limit of a response in bytes. Proxies beyond it have counts only.
const LARGEST: usize = 16 << 20;

/// Configuration diff of the proxies of a mesh between two snapshots, including the writes that reconcilers would make
/// after the change: a different mode of a mesh creates or deletes MeshServices.
pub(crate) fn of(
    ConfigDiff { mesh, before: stored, after, full }: ConfigDiff<'_>,
    settings: EngineSettings,
    services: &service_status::ServiceSettings,
    files: &FileSources,
) -> Result<Value, InspectError> {
    let cancellation = settings.cancellation.clone();
    let reconciled = preview(stored, after, mesh, services, &cancellation)?;
    let of_mesh = EngineChange::of_mesh(stored.world(), mesh);
    let identities = |of: &Snapshot| Arc::new(StoredIdentities::new(of.clone(), files.clone()));
    let made = OfflineMesh::with_identities(settings, mesh, of_mesh, identities(stored));
    let mut world = made.map_err(InspectError::Faults)?;
    let known: Vec<ProxyKey> = stored.list_in("Dataplane", mesh).map(|record| key_of(&record.key)).collect();
    let said = |proxy: &ProxyKey| Arc::new(metadata(stored.world(), proxy).unwrap_or_default());
    world.connect_all(known.iter().map(|proxy| (proxy.clone(), said(proxy))));
    cancellation.check()?;
    // A proxy without a valid configuration today is compared with an empty one.
    let mut before: BTreeMap<ProxyKey, Option<Arc<Published>>> =
        known.into_iter().map(|proxy| (proxy.clone(), world.snapshot(&proxy))).collect();
    let changes = stored.world().difference(reconciled.world());
    let changes: Vec<_> = changes.into_iter().filter(|change| concerns(&change.key, mesh)).collect();
    let written = changes.iter().filter_map(EngineChange::of).chain(rolled_out(stored, after, mesh));
    world.set_identities(identities(&reconciled));
    let mut concerned = world.change(written).map_err(InspectError::Faults)?;
    cancellation.check()?;
    let mut new = Vec::new();
    for change in changes.iter().filter(|change| &*change.key.kind == "Dataplane") {
        let proxy = key_of(&change.key);
        if change.resource.is_none() {
            before.remove(&proxy);
            concerned.remove(&proxy);
        } else if let Entry::Vacant(unknown) = before.entry(proxy.clone()) {
            unknown.insert(None);
            new.push((proxy.clone(), said(&proxy)));
        }
    }
    concerned.extend(world.connect_all(new));
    cancellation.check()?;
    answer(&world, &before, concerned, full, &cancellation)
}

fn key_of(dataplane: &ResourceKey) -> ProxyKey {
    ProxyKey { mesh: dataplane.mesh.clone(), name: dataplane.name.clone() }
}

fn concerns(key: &ResourceKey, mesh: &str) -> bool {
    &*key.mesh == mesh || key.mesh.is_empty() && (&*key.kind != "Mesh" || &*key.name == mesh)
}

/// The diff shows the last step of an mTLS rollout.
fn rolled_out(stored: &Snapshot, after: &Snapshot, mesh: &str) -> Option<EngineChange> {
    let moves = expected(stored, mesh) != expected(after, mesh);
    moves.then(|| EngineChange::Rollout { mesh: mesh.into(), rollout: expected(after, mesh) })
}

/// Last step of the rollout of a mesh, from its resources: the recorded one is of those before the change.
fn expected(snapshot: &Snapshot, mesh: &str) -> Option<Rollout> {
    let desired = kodiak_identity::expected(snapshot.world(), mesh);
    snapshot.world().mesh(mesh).map(|spec| Rollout::target(&spec, &desired))
}

fn answer(
    world: &OfflineMesh,
    before: &BTreeMap<ProxyKey, Option<Arc<Published>>>,
    concerned: AffectedProxies,
    full: bool,
    cancellation: &Cancellation,
) -> Result<Value, InspectError> {
    let mut patches = full.then(Patches::default);
    let (mut proxies, mut faults) = (Vec::new(), Vec::new());
    let (mut bytes, mut told, mut left_out) = (0, 0, 0);
    for (proxy, found) in concerned {
        cancellation.check()?;
        if !found.is_empty() {
            faults.push(json!({ "name": proxy.name, "faults": found }));
            continue;
        }
        let old = before.get(&proxy).and_then(Option::as_deref);
        let enough = told > LARGEST;
        let wanted = patches.as_mut().filter(|_| !enough);
        let difference =
            Difference::between(old, world.snapshot(&proxy).as_deref(), wanted).map_err(|error| broken(&error))?;
        if difference.is_empty() {
            continue;
        }
        bytes += difference.bytes();
        let Difference { added, removed, changed } = &difference;
        let counts = json!({ "added": added.len(), "removed": removed.len(), "changed": changed.len() });
        let mut one = json!({ "name": proxy.name, "bytes": difference.bytes(), "counts": counts });
        if enough {
            left_out += 1;
        } else {
            one["added"] = json!(added);
            one["removed"] = json!(removed);
            one["changed"] = json!(changed);
            told += one.to_string().len();
        }
        proxies.push(one);
    }
    let unchanged = before.len() - proxies.len() - faults.len();
    Ok(json!({
        "proxies": proxies, "unchanged": unchanged, "bytes": bytes, "faults": faults, "leftOut": left_out,
    }))
}
