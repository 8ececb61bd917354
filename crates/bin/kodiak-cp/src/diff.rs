//! Which proxies of a mesh would change, and how, if resources were written or deleted.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use kodiak_api::inspect::Trouble;
use kodiak_catalog::spec_of;
use kodiak_engine::{
    Change, Settings,
    difference::{Difference, Patches},
    offline::{Concerned, World},
};
use kodiak_model::{ProxyKey, ResourceKey, kinds::mesh::Mesh};
use kodiak_reconcilers::foresee;
use kodiak_store::{Record, Snapshot};
use kodiak_views::{rollout::Rollout, service_status};
use kodiak_xds_stream::Snapshot as Published;
use serde_json::{Value, json};

use crate::{
    changes,
    offline::{broken, metadata},
};

/// Of an answer, in bytes. Of proxies beyond it only the numbers are told.
const LARGEST: usize = 16 << 20;

/// What there is to say of what would be stored, without a record deleted, and of what the control plane would then make
/// of it: other settings of a mesh bring or end MeshServices.
pub(crate) fn between(
    stored: &Snapshot,
    settings: &Settings,
    services: &service_status::Settings,
    mesh: &str,
    planned: &[(ResourceKey, Option<Record>)],
    full: bool,
) -> Result<Value, Trouble> {
    let foreseen = foresee(stored, mesh, planned, services);
    let mut world = World::new(settings.clone(), mesh, changes::of_mesh(stored, mesh)).map_err(Trouble::Faults)?;
    let known: Vec<ProxyKey> = stored.list_in("Dataplane", mesh).map(|record| key_of(&record.key)).collect();
    let said = |proxy: &ProxyKey| Arc::new(metadata(stored, proxy).unwrap_or_default());
    world.connect_all(known.iter().map(|proxy| (proxy.clone(), said(proxy))));
    // One that cannot be served today is compared with nothing.
    let mut before: BTreeMap<ProxyKey, Option<Arc<Published>>> =
        known.into_iter().map(|proxy| (proxy.clone(), world.snapshot(&proxy))).collect();
    let written = planned.iter().chain(&foreseen).filter_map(|(key, record)| changes::of(key, record.as_ref()));
    let written: Vec<Change> = written.chain(rolled_out(stored, mesh, planned)).collect();
    let mut concerned = world.change(written).map_err(Trouble::Faults)?;
    let mut new = Vec::new();
    for (key, record) in planned.iter().filter(|(key, _)| &*key.kind == "Dataplane") {
        let proxy = key_of(key);
        if record.is_none() {
            before.remove(&proxy);
            concerned.remove(&proxy);
        } else if let Entry::Vacant(unknown) = before.entry(proxy.clone()) {
            unknown.insert(None);
            new.push((proxy.clone(), said(&proxy)));
        }
    }
    concerned.extend(world.connect_all(new));
    answer(&world, &before, concerned, full)
}

fn key_of(dataplane: &ResourceKey) -> ProxyKey {
    ProxyKey { mesh: dataplane.mesh.clone(), name: dataplane.name.clone() }
}

/// A mesh goes to other settings of mTLS step by step. What is told is where that ends.
fn rolled_out(stored: &Snapshot, mesh: &str, planned: &[(ResourceKey, Option<Record>)]) -> Option<Change> {
    let itself = ResourceKey::global("Mesh", mesh);
    let target = |record: &Record| spec_of::<Mesh>(record).map(|spec| Rollout::target(&spec));
    let (_, new) = planned.iter().find(|(key, _)| *key == itself)?;
    let moves = new.as_ref().and_then(target) != stored.get(&itself).and_then(target);
    moves.then(|| Change::Rollout { mesh: mesh.into(), rollout: None })
}

fn answer(
    world: &World,
    before: &BTreeMap<ProxyKey, Option<Arc<Published>>>,
    concerned: Concerned,
    full: bool,
) -> Result<Value, Trouble> {
    let mut patches = full.then(Patches::default);
    let (mut proxies, mut faults) = (Vec::new(), Vec::new());
    let (mut bytes, mut told, mut left_out) = (0, 0, 0);
    for (proxy, found) in concerned {
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
