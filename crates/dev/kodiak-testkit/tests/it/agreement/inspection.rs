//! Property: inspection and the engine agree on the destinations of every proxy, and on policies without effect.
//!
//! Meshes of `meshes`, with a mode, MeshServices for some of the services, and reachable lists.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use kodiak_engine::offline::OfflineMesh;
use kodiak_engine::{EngineChange, EngineSettings};
use kodiak_inspection::inspect::MeshView;
use kodiak_inspection::policy_status::{self, PolicyStatusContext, State};
use kodiak_kinds::kinds;
use kodiak_model::{Kri, ProxyKey, ResourceKey};
use kodiak_services::reachable::Outbounds;
use kodiak_world::{Stored, World};
use kodiak_xds::names::{self, Naming};
use kodiak_xds_stream::{Snapshot, TypeUrl};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use kodiak_oracle::documents;
use kodiak_oracle::meshes::{MESH, Mesh, SERVICES, meshes};

/// A mesh on its way from tags to MeshServices.
#[derive(Debug, Clone)]
struct Migrating {
    mesh: Mesh,
    mode: &'static str,
    /// Services with a MeshService.
    objects: Vec<&'static str>,
    /// For each sidecar.
    lists: Vec<Lists>,
}

/// Lists of a Dataplane.
#[derive(Debug, Clone)]
struct Lists {
    services: Vec<&'static str>,
    backends: Option<Vec<Value>>,
    /// References of outbounds, of a sidecar that lists outbounds.
    outbounds: Vec<Value>,
}

const MODES: &[&str] = &["Disabled", "Everywhere", "ReachableBackends", "Exclusive", "Exclusive"];

fn migrating() -> impl Strategy<Value = Migrating> {
    let lists = vec(lists(), 5);
    let objects = subsequence(SERVICES.to_vec(), 0..=SERVICES.len());
    (meshes(), select(MODES), objects, lists).prop_map(|(mesh, mode, objects, lists)| Migrating {
        mesh,
        mode,
        objects,
        lists,
    })
}

fn lists() -> impl Strategy<Value = Lists> {
    let port = proptest::option::of(select(&[80_u32, 81][..]));
    let reference = prop_oneof![
        (select(SERVICES), port).prop_map(|(name, port)| json!({ "kind": "MeshService", "name": name, "port": port })),
        select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": name } })),
    ];
    let outbound = select(SERVICES).prop_map(|name| json!({ "kind": "MeshService", "name": name, "port": 80 }));
    let services = prop_oneof![2 => Just(Vec::new()), 1 => subsequence(SERVICES.to_vec(), 1..3)];
    (services, proptest::option::weighted(0.4, vec(reference, 0..3)), vec(outbound, 0..3))
        .prop_map(|(services, backends, outbounds)| Lists { services, backends, outbounds })
}

impl Migrating {
    fn documents(&self) -> Vec<Value> {
        let mut documents = self.mesh.documents();
        let mut lists = self.lists.iter();
        for document in &mut documents {
            match document["type"].as_str() {
                Some("Mesh") => document["meshServices"] = json!({ "mode": self.mode }),
                Some("Dataplane") => lists.next().unwrap().write(&mut document["networking"]),
                _ => (),
            }
        }
        documents.extend(self.objects.iter().map(|name| mesh_service(name)));
        documents
    }

    fn is_redirected(&self, name: &str) -> bool {
        self.mesh.sidecars.iter().any(|sidecar| sidecar.name == name && sidecar.is_redirected())
    }
}

impl Lists {
    /// References beside the outbounds of a sidecar that lists some.
    fn write(&self, networking: &mut Value) {
        let mut transparent = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
        if !self.services.is_empty() {
            transparent["reachableServices"] = json!(self.services);
        }
        if let Some(refs) = &self.backends {
            transparent["reachableBackends"] = json!({ "refs": refs });
        }
        let outbounds = networking["outbound"].as_array_mut().unwrap();
        if outbounds.is_empty() {
            networking["transparentProxying"] = transparent;
            return;
        }
        for (reference, port) in self.outbounds.iter().zip(20_000..) {
            outbounds.push(json!({ "port": port, "backendRef": reference }));
        }
    }
}

fn mesh_service(name: &str) -> Value {
    let ports = json!([{ "port": 80, "targetPort": 8080, "name": "main" }, { "port": 81, "targetPort": 8080 }]);
    let selector = json!({ "dataplaneTags": { "kuma.io/service": name } });
    let spec = json!({ "selector": selector, "ports": ports });
    json!({ "type": "MeshService", "mesh": MESH, "name": name, "labels": { "kuma.io/display-name": name }, "spec": spec })
}

/// The documents as stored resources, with the addresses that a reconciler would have assigned.
fn world(documents: Vec<Value>) -> World {
    let mut world = World::default();
    for (n, document) in documents.into_iter().enumerate() {
        let resource = documents::resource(document).unwrap();
        let is_service = resource.kind.name == "MeshService";
        let status = is_service.then(|| json!({ "vips": [{ "ip": format!("241.0.0.{n}") }] }).to_string().into());
        world.put(Stored {
            key: &ResourceKey::in_mesh(resource.kind.name, &resource.mesh, &resource.name),
            labels: &Arc::new(resource.labels.clone()),
            created: Timestamp::UNIX_EPOCH,
            version: 1,
            status_version: 1,
            revision: 1,
            spec: &resource.spec().into(),
            status: status.as_ref(),
        });
    }
    world
}

fn view(world: &World) -> MeshView {
    let mut policies: Vec<_> = kinds().iter().filter(|kind| kind.is_policy()).collect();
    policies.sort_by_key(|kind| kind.policy.map(|facts| facts.order));
    MeshView::of(world, MESH, policies)
}

fn engine(world: &World) -> OfflineMesh {
    let settings = EngineSettings { zone: documents::ZONE.into(), ..EngineSettings::default() };
    OfflineMesh::new(settings, MESH, world.changes().filter_map(|change| EngineChange::of(&change))).unwrap()
}

/// Clusters of destinations.
fn clusters(snapshot: &Snapshot) -> BTreeSet<String> {
    let own = ["localhost", "inbound", "outbound", "self_", "kuma:"];
    let names = snapshot.resources.of(TypeUrl::Cluster).keys().map(ToString::to_string);
    names.filter(|name| !own.iter().any(|prefix| name.starts_with(prefix))).collect()
}

fn expected(Outbounds { services, ports }: Outbounds<'_>) -> BTreeSet<String> {
    let ports = ports.into_iter().map(|(destination, port)| {
        let kri = Kri { section: port.section.clone(), ..destination.kri.clone() };
        names::port_cluster(Naming::default(), &kri, port.port)
    });
    services.iter().map(names::service_cluster).chain(ports).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn inspection_agrees_with_the_engine(migrating in migrating()) {
        let world = world(migrating.documents());
        let view = view(&world);
        let mut engine = engine(&world);
        let services = view.legacy_services();
        let routes = view.policy_index.policies().any(|policy| policy.kind.name.ends_with("Route"));
        for proxy in view.proxies.values() {
            let redirected = migrating.is_redirected(&proxy.name);
            let metadata = Arc::new(documents::metadata(redirected));
            let sent = clusters(&engine.connect(&ProxyKey::new(MESH, &proxy.name), metadata).unwrap());
            let own = expected(view.outbounds(proxy, redirected));
            if routes {
                // Backends of routes are clusters too.
                prop_assert!(own.is_subset(&sent), "{}: {own:?} and {sent:?}", proxy.name);
            } else {
                prop_assert_eq!(&own, &sent, "{}", proxy.name);
            }
            if !view.has_legacy_destinations() {
                prop_assert!(sent.iter().all(|name| names::is_port(name)), "{}: {sent:?}", proxy.name);
            }
        }
        let without = view.proxies.keys().filter(|name| !migrating.is_redirected(name));
        let not_redirected = without.cloned().collect();
        let context = PolicyStatusContext {
            policy_index: &view.policy_index,
            resources: &view.resources,
            proxies: &view.proxies,
            services: &services,
            not_redirected: &not_redirected,
            identities: &view.identities,
            otlp_backends: &view.otlp_backends,
            rollout: &view.rollout,
            resolution: view.resolution(),
        };
        // An overridden permission may leave other text in the filter, with the same meaning.
        for policy in view.policy_index.policies().filter(|policy| policy.kind.name != "MeshTrafficPermission") {
            let status = policy_status::of(policy, context);
            let removed = EngineChange::Policy { mesh: MESH.into(), key: (policy.kind.name, policy.name.clone()), policy: None };
            let restored = EngineChange::Policy {
                mesh: MESH.into(),
                key: (policy.kind.name, policy.name.clone()),
                policy: Some(policy.clone()),
            };
            let changed = engine.change([removed]).unwrap();
            engine.change([restored]).unwrap();
            let is_without_effect = status.state == State::NotInForce;
            prop_assert!(!is_without_effect || changed.is_empty(), "{status:?} but {changed:?}");
        }
    }
}
