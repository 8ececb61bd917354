//! Decoding, and the rule for unreadable specs.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{
    Labels, ResourceKey,
    kinds::{dataplane::Admission, mesh::Mesh},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{Change, Fallback, Resource, Stored, World};

const MESH: &str = "default";

/// Puts the next version of a resource.
fn put(world: &mut World, kind: &str, name: &str, spec: &str) -> Arc<Resource> {
    put_with(world, kind, name, spec, None)
}

fn put_with(world: &mut World, kind: &str, name: &str, spec: &str, status: Option<&str>) -> Arc<Resource> {
    let key = if kind == "Mesh" { ResourceKey::global(kind, name) } else { ResourceKey::in_mesh(kind, MESH, name) };
    let version = world.get(&key).map_or(1, |old| old.version + 1);
    world.put(Stored {
        key: &key,
        labels: &Arc::new(Labels::new()),
        created: Timestamp::UNIX_EPOCH,
        version,
        status_version: 1,
        revision: version,
        spec: &spec.into(),
        status: status.map(Arc::from).as_ref(),
    })
}

fn timeout(seconds: u32) -> String {
    let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": format!("{seconds}s") } }]);
    json!({ "to": to }).to_string()
}

/// Invalid targetRef.
const UNREADABLE: &str = r#"{"targetRef": 7}"#;

#[test]
fn last_readable_version_stays_in_use() {
    let mut world = World::default();
    put(&mut world, "MeshTimeout", "slow", &timeout(5));
    let stored = put(&mut world, "MeshTimeout", "slow", UNREADABLE);
    assert_eq!(stored.unreadable().unwrap().fallback, Fallback::LastReadable { version: 1 });
    assert_eq!(stored.policy().unwrap().body.to.len(), 1);
    // Also after several unreadable versions.
    let stored = put(&mut world, "MeshTimeout", "slow", "no JSON at all");
    assert_eq!(stored.unreadable().unwrap().fallback, Fallback::LastReadable { version: 1 });
    assert_eq!(world.unreadable().count(), 1);
    let stored = put(&mut world, "MeshTimeout", "slow", &timeout(6));
    assert!(stored.unreadable().is_none());
    assert_eq!(world.unreadable().count(), 0);
}

#[test]
fn resource_without_a_readable_version_is_ignored() {
    let mut world = World::default();
    for (kind, name) in [("MeshTimeout", "slow"), ("Dataplane", "web-1"), ("MeshService", "web"), ("Mesh", MESH)] {
        let spec = if kind == "MeshTimeout" { UNREADABLE } else { r#"{"networking": 7, "ports": 7, "mtls": 7}"# };
        let stored = put(&mut world, kind, name, spec);
        assert_eq!(stored.unreadable().map(|unreadable| unreadable.fallback), Some(Fallback::LeftOut), "{kind}");
        assert!(stored.policy().is_none() && stored.proxy().is_none() && stored.destination().is_none());
    }
    assert!(world.mesh(MESH).is_none(), "an unreadable Mesh is not one with default settings");
    assert_eq!(world.unreadable().count(), 4);
    world.delete(&ResourceKey::in_mesh("Dataplane", MESH, "web-1"));
    assert_eq!(world.unreadable().count(), 3);
}

#[test]
fn unreadable_permission_denies_what_it_targets() {
    let mut world = World::default();
    let target = json!({ "kind": "Dataplane", "labels": { "app": "web" } });
    for (spec, targets) in [
        (json!({ "targetRef": target, "rules": 7 }).to_string(), true),
        (UNREADABLE.to_owned(), false),
        (r#"{"targetRef": {"kind": "Planet"}, "from": 7}"#.to_owned(), false),
        ("no JSON at all".to_owned(), false),
    ] {
        let mut world = world.clone();
        let stored = put(&mut world, "MeshTrafficPermission", "deny", &spec);
        assert_eq!(stored.unreadable().unwrap().fallback, Fallback::DenyAll, "{spec}");
        let body = &stored.policy().unwrap().body;
        assert_eq!(body.target.is_some(), targets, "the whole mesh when the target cannot be read: {spec}");
        assert_eq!(*body.rules[0].conf.json(), json!({ "deny": [{}] }));
    }
    // The replacement does not become the last readable version.
    put(&mut world, "MeshTrafficPermission", "deny", UNREADABLE);
    let stored = put(&mut world, "MeshTrafficPermission", "deny", UNREADABLE);
    assert_eq!(stored.unreadable().unwrap().fallback, Fallback::DenyAll);
}

#[test]
fn unreadable_status_of_a_dataplane_binds_nothing() {
    let mut world = World::default();
    let proxy =
        |world: &mut World, status| put_with(world, "Dataplane", "web-1", "{}", status).proxy().unwrap().clone();
    assert_eq!(proxy(&mut world, None).admission, None, "a user wrote it");
    assert_eq!(proxy(&mut world, Some("7")).admission, Some(Arc::new(Admission::unknown())));
}

#[test]
fn each_revision_is_decoded_once() {
    let mut world = World::default();
    let stored = put(&mut world, "Mesh", MESH, "{}");
    let again = world.decoded(Stored {
        key: &stored.key,
        labels: &stored.labels,
        created: stored.created,
        version: 1,
        status_version: 1,
        revision: 1,
        spec: &"{}".into(),
        status: None,
    });
    assert!(Arc::ptr_eq(&stored, &again));
    let [one, other] = [&stored, &again].map(|resource| resource.spec::<Mesh>().unwrap());
    assert!(Arc::ptr_eq(&one, &other));
}

#[test]
fn revision_of_another_history_is_decoded_again() {
    let mut world = World::default();
    let stored = put(&mut world, "MeshTimeout", "slow", &timeout(5));
    let other = Stored {
        key: &stored.key,
        labels: &stored.labels,
        created: stored.created,
        version: 1,
        status_version: 1,
        revision: 1,
        spec: &timeout(6).into(),
        status: None,
    };
    assert_ne!(world.decoded(other).policy().unwrap().body, stored.policy().unwrap().body);
    // A world that replaces this one keeps its readable versions.
    let mut next = World::default();
    let unreadable = put(&mut next, "MeshTimeout", "slow", UNREADABLE);
    assert_eq!(unreadable.unreadable().unwrap().fallback, Fallback::LeftOut);
    next.inherit(&world);
    let inherited = next.get(&stored.key).unwrap();
    assert_eq!(inherited.unreadable().unwrap().fallback, Fallback::LastReadable { version: 1 });
    assert_eq!(inherited.policy().unwrap().body, stored.policy().unwrap().body);
}

/// Deletes, or puts a spec that is readable or not.
fn edits() -> impl Strategy<Value = Vec<(usize, Option<Value>)>> {
    let spec = prop_oneof![
        (1_u32..9).prop_map(|seconds| serde_json::from_str(&timeout(seconds)).unwrap()),
        Just(serde_json::from_str(UNREADABLE).unwrap())
    ];
    prop::collection::vec((0..4_usize, prop::option::weighted(0.8, spec)), 0..40)
}

proptest! {
    /// Applying the difference of two worlds to the first gives the second.
    #[test]
    fn difference_is_all_that_changed(before in edits(), after in edits()) {
        let (mut world, mut revision) = (World::default(), 0);
        let mut apply = |world: &mut World, edits: Vec<(usize, Option<Value>)>| {
            for (number, spec) in edits {
                revision += 1;
                let key = ResourceKey::in_mesh("MeshTimeout", MESH, &format!("p-{number}"));
                match spec {
                    None => world.delete(&key),
                    Some(spec) => {
                        world.put(Stored {
                            key: &key,
                            labels: &Arc::default(),
                            created: Timestamp::UNIX_EPOCH,
                            version: revision,
                            status_version: 0,
                            revision,
                            spec: &spec.to_string().into(),
                            status: None,
                        });
                    }
                }
            }
        };
        apply(&mut world, before);
        let mut next = world.clone();
        apply(&mut next, after);
        let mut keys: Vec<(ResourceKey, Option<u64>)> =
            world.changes().map(|Change { key, revision, .. }| (key, Some(revision))).collect();
        for Change { key, revision, resource } in world.difference(&next) {
            keys.retain(|(known, _)| *known != key);
            keys.extend(resource.map(|_| (key, Some(revision))));
        }
        keys.sort();
        let expected: Vec<_> = next.changes().map(|change| (change.key, Some(change.revision))).collect();
        prop_assert_eq!(keys, expected);
    }
}
