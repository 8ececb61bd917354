//! What is stored, as the engine is told of it.

use std::sync::Arc;

use kodiak_catalog::{admission_of, destination_of, spec_of};
use kodiak_engine::Change;
use kodiak_kinds::kinds;
use kodiak_model::{
    Kind, ProxyKey, ResourceKey,
    kinds::{dataplane::Dataplane, mesh::Mesh, zone_egress::ZoneEgress},
    policy::Body,
    re2,
};
use kodiak_reconcilers::{ROLLOUT, VIPS};
use kodiak_rules::{Policy, Proxy};
use kodiak_store::{Record, Snapshot};
use kodiak_views::destination;

/// The kinds in a mesh that proxies depend on, policies and destinations apart.
const IN_MESH: [&str; 2] = ["Dataplane", "Config"];

/// `None` for what no proxy depends on. Without a record it is gone.
pub fn of(key: &ResourceKey, record: Option<&Record>) -> Option<Change> {
    let (mesh, name) = (key.mesh.clone(), key.name.clone());
    Some(match &*key.kind {
        "Mesh" => Change::Mesh { name, mesh: record.and_then(spec_of::<Mesh>).map(Arc::new) },
        "Dataplane" => Change::Dataplane { key: ProxyKey { mesh, name }, dataplane: record.and_then(proxy) },
        "Secret" => Change::Authority { mesh },
        "ZoneEgress" => Change::ZoneEgress { name, egress: record.and_then(spec_of::<ZoneEgress>).map(Arc::new) },
        "Config" if &*name == VIPS => {
            Change::Vips { mesh, vips: record.and_then(kodiak_reconcilers::read).map(Arc::new) }
        }
        "Config" if &*name == ROLLOUT => Change::Rollout { mesh, rollout: record.and_then(kodiak_reconcilers::read) },
        kind if let Some((_, kind)) = destination::KINDS.iter().find(|(known, _)| known.name == kind) => {
            let destination = record.and_then(destination_of).map(Arc::new);
            Change::Destination { mesh, kind: *kind, name, destination }
        }
        kind => {
            let kind = kinds().by_name(kind).filter(|kind| kind.is_policy())?;
            let policy = record.and_then(|record| policy(kind, record));
            Change::Policy { mesh, key: (kind.name, name), policy }
        }
    })
}

/// All that a mesh is made of, for an engine that knows nothing yet.
pub(crate) fn of_mesh(snapshot: &Snapshot, mesh: &str) -> Vec<Change> {
    let itself = snapshot.get(&ResourceKey::global("Mesh", mesh));
    let policies = kinds().iter().filter(|kind| kind.is_policy()).map(|kind| kind.name);
    let destinations = destination::KINDS.iter().map(|(kind, _)| kind.name);
    let within = IN_MESH.into_iter().chain(destinations).chain(policies);
    let within = within.flat_map(|kind| snapshot.list_in(kind, mesh));
    itself
        .into_iter()
        .chain(snapshot.list("ZoneEgress"))
        .chain(within)
        .filter_map(|record| of(&record.key, Some(record)))
        .collect()
}

/// A stored resource that cannot be read hurts only itself: it counts as gone.
fn proxy(record: &Record) -> Option<Arc<Proxy>> {
    let dataplane = Arc::new(spec_of::<Dataplane>(record)?);
    let ResourceKey { mesh, name, .. } = record.key.clone();
    let admission = admission_of(record).map(Arc::new);
    Some(Arc::new(Proxy { mesh, name, labels: record.labels.clone(), dataplane, admission }))
}

fn policy(kind: &'static Kind, record: &Record) -> Option<Arc<Policy>> {
    let spec = serde_json::from_str(&record.spec).ok()?;
    // Most policies have none, and need not be searched.
    let searched = if record.spec.contains("RegularExpression") { re2::invalid_in(&spec) } else { Vec::new() };
    for (path, reason) in searched {
        tracing::warn!(
            policy = %record.key, path, reason,
            "stored policy has a regular expression that Envoy cannot compile, it matches nothing"
        );
    }
    let body = Body::read(kind.policy.as_ref()?, &spec).ok()?;
    let ResourceKey { mesh, name, .. } = record.key.clone();
    Some(Arc::new(Policy { kind, mesh, name, labels: record.labels.clone(), body }))
}
