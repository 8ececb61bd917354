//! An engine that some resource panics, beside one that never saw that resource.

use kodiak_engine::offline::Placeholders;
use kodiak_model::{kinds::dataplane::Dataplane, policy::Body};
use kodiak_rules::{Policy, Proxy};
use kodiak_xds_stream::Snapshot;
use serde_json::{Value, json};

use super::*;
use crate::faults::EngineFault;

const MESH: &str = "default";
const TIME: Timestamp = Timestamp::UNIX_EPOCH;

fn mesh() -> Input {
    let key = ResourceKey::global("Mesh", MESH);
    Input {
        key,
        revision: 1,
        change: EngineChange::Mesh { name: MESH.into(), mesh: Some(Arc::default()), reachability: None },
    }
}

fn dataplane(name: &str, revision: u64) -> Input {
    let outbound = json!([{ "port": 10001, "tags": { "kuma.io/service": "b" } }]);
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": name.get(..1), "kuma.io/protocol": "http" } }]);
    let address = format!("10.0.0.{}", revision % 200);
    let spec = json!({ "networking": { "address": address, "inbound": inbound, "outbound": outbound } });
    let dataplane: Arc<Dataplane> = Arc::new(serde_json::from_value(spec).unwrap());
    let proxy = Proxy { mesh: MESH.into(), name: name.into(), labels: Arc::default(), dataplane, admission: None };
    let change = EngineChange::Dataplane { key: ProxyKey::new(MESH, name), dataplane: Some(Arc::new(proxy)) };
    Input { key: ResourceKey::in_mesh("Dataplane", MESH, name), revision, change }
}

fn timeout(name: &str, revision: u64) -> Input {
    let kind = kodiak_kinds::kinds().by_name("MeshTimeout").unwrap();
    let spec: Value = json!({ "targetRef": { "kind": "Mesh" }, "to": [
        { "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": format!("{revision}s") } }] });
    let body = Body::read(kind.policy.as_ref().unwrap(), &spec).unwrap();
    let policy = Policy { kind, mesh: MESH.into(), name: name.into(), labels: Arc::default(), body };
    let change =
        EngineChange::Policy { mesh: MESH.into(), key: (kind.name, name.into()), policy: Some(Arc::new(policy)) };
    Input { key: ResourceKey::in_mesh("MeshTimeout", MESH, name), revision, change }
}

fn connected(name: &str) -> Input {
    let key = ResourceKey::in_mesh("DataplaneInsight", MESH, name);
    let change = EngineChange::Connected { key: ProxyKey::new(MESH, name), metadata: Arc::default() };
    Input { key, revision: 0, change }
}

/// In the order in which they are stored.
fn everything() -> Vec<Input> {
    let mut all = vec![mesh()];
    all.extend(["a-1", "a-2", "b-1", "b-2"].iter().zip(2..).map(|(name, revision)| dataplane(name, revision)));
    all.extend(["slow", "slower"].iter().zip(10..).map(|(name, revision)| timeout(name, revision)));
    all.extend(["a-1", "a-2", "b-1", "b-2"].map(connected));
    all
}

/// The revision that a change has of its own: of what it says.
fn says(change: &EngineChange) -> String {
    format!("{change:?}")
}

fn engine(poisoned: Option<&Input>) -> GuardedEngine {
    let poison = poisoned.map(|input| says(&input.change));
    let panic_at: EngineFault = Arc::new(move |change| {
        assert!(poison.as_deref() != Some(&says(change)), "poisoned");
    });
    GuardedEngine::new(
        EngineSettings { zone: "default".into(), ..EngineSettings::default() },
        Quarantine::default(),
        Faults { engine: Some(panic_at), task: None },
    )
}

fn apply(engine: &mut GuardedEngine, inputs: &[Input]) -> Outcome {
    engine.apply(inputs.to_vec(), vec![EngineChange::Tick], usize::MAX, &Placeholders, TIME)
}

fn snapshots(engine: &GuardedEngine) -> Vec<Option<Vec<Vec<Vec<u8>>>>> {
    let bytes = |snapshot: &Snapshot| {
        let types = kodiak_xds_stream::TypeUrl::ALL.into_iter();
        types.map(|each| snapshot.of(each).values().map(|resource| resource.delta.to_vec()).collect()).collect()
    };
    let proxies = ["a-1", "a-2", "b-1", "b-2"].map(|name| engine.engine.snapshot(&ProxyKey::new(MESH, name)));
    proxies.into_iter().map(|snapshot| snapshot.as_deref().map(bytes)).collect()
}

#[test]
fn the_result_is_that_of_an_engine_that_never_saw_the_poisoned_resource() {
    let all = everything();
    for (position, poisoned) in all.iter().enumerate() {
        let mut others = all.clone();
        others.remove(position);
        let mut expected = engine(None);
        apply(&mut expected, &others);

        let mut at_once = engine(Some(poisoned));
        apply(&mut at_once, &all);
        assert_eq!(snapshots(&at_once), snapshots(&expected), "all at once, without {}", poisoned.key);
        let mut one_by_one = engine(Some(poisoned));
        for input in &all {
            apply(&mut one_by_one, std::slice::from_ref(input));
        }
        assert_eq!(snapshots(&one_by_one), snapshots(&expected), "one by one, without {}", poisoned.key);
        for engine in [&at_once, &one_by_one] {
            let held = engine.quarantine.list();
            let held: Vec<_> = held.iter().map(|(key, _, entry)| (key, entry.revision)).collect();
            assert_eq!(held, [(&poisoned.key, poisoned.revision)]);
        }
    }
}

/// With mTLS, and with a permission that allows all calls.
fn with_permissions() -> Vec<Input> {
    let mtls = json!({ "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] } });
    let mesh = Arc::new(serde_json::from_value(mtls).unwrap());
    let change = EngineChange::Mesh { name: MESH.into(), mesh: Some(mesh), reachability: None };
    let mesh = Input { key: ResourceKey::global("Mesh", MESH), revision: 1, change };
    let others = everything().into_iter().skip(1);
    [mesh, permission("allow", "Allow")].into_iter().chain(others).collect()
}

fn permission(name: &str, action: &str) -> Input {
    let kind = kodiak_kinds::kinds().by_name("MeshTrafficPermission").unwrap();
    let spec = json!({ "from": [{ "targetRef": { "kind": "Mesh" }, "default": { "action": action } }] });
    let body = Body::read(kind.policy.as_ref().unwrap(), &spec).unwrap();
    let policy = Policy { kind, mesh: MESH.into(), name: name.into(), labels: Arc::default(), body };
    let change =
        EngineChange::Policy { mesh: MESH.into(), key: (kind.name, name.into()), policy: Some(Arc::new(policy)) };
    Input { key: ResourceKey::in_mesh(kind.name, MESH, name), revision: 5, change }
}

#[test]
fn quarantined_permission_is_replaced_by_one_that_denies_all() {
    let (all, poisoned) = (with_permissions(), permission("poisoned", "Deny"));
    let mut allowing = engine(None);
    apply(&mut allowing, &all);
    let mut denying = engine(None);
    apply(&mut denying, &all);
    apply(&mut denying, &[denied(&poisoned).unwrap()]);
    assert_ne!(snapshots(&denying), snapshots(&allowing));

    let mut engine = engine(Some(&poisoned));
    apply(&mut engine, &all);
    apply(&mut engine, std::slice::from_ref(&poisoned));
    assert_eq!(engine.quarantine.list().len(), 1);
    assert_eq!(snapshots(&engine), snapshots(&denying));
    let change =
        EngineChange::Policy { mesh: MESH.into(), key: ("MeshTrafficPermission", "poisoned".into()), policy: None };
    apply(&mut engine, &[Input { key: poisoned.key, revision: 6, change }]);
    assert_eq!(snapshots(&engine), snapshots(&allowing), "it is deleted");
}

#[test]
fn a_newer_revision_is_tried_again() {
    let (all, poisoned) = (everything(), timeout("poisoned", 20));
    let mut engine = engine(Some(&poisoned));
    apply(&mut engine, &all);
    let before = snapshots(&engine);
    apply(&mut engine, std::slice::from_ref(&poisoned));
    assert_eq!(snapshots(&engine), before, "the others are served as before");
    apply(&mut engine, std::slice::from_ref(&poisoned));
    assert_eq!(engine.quarantine.list().len(), 1, "the same revision is not tried again");
    apply(&mut engine, &[timeout("poisoned", 21)]);
    assert!(engine.quarantine.list().is_empty());
    assert_ne!(snapshots(&engine), before, "the repaired policy is in force");
    apply(&mut engine, std::slice::from_ref(&poisoned));
    let key = poisoned.key.clone();
    let change = EngineChange::Policy { mesh: MESH.into(), key: ("MeshTimeout", "poisoned".into()), policy: None };
    apply(&mut engine, &[Input { key, revision: 22, change }]);
    assert!(engine.quarantine.list().is_empty(), "a resource that is deleted is not left out");
    assert_eq!(snapshots(&engine), before);
}

#[test]
fn revisions_of_snapshots_go_on_after_a_panic() {
    let (all, poisoned) = (everything(), dataplane("poisoned", 30));
    let mut engine = engine(Some(&poisoned));
    let revision = |engine: &GuardedEngine| engine.engine.snapshot(&ProxyKey::new(MESH, "a-1")).unwrap().revision;
    apply(&mut engine, &all);
    let before = revision(&engine);
    apply(&mut engine, &[poisoned]);
    assert!(revision(&engine) > before);
}
