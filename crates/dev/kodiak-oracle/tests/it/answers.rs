//! `why`, `graph` and `permissions check` say what Envoys do, for every pair of random meshes of all kinds.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_inspection::calls::{Backend, CallGraph, Calls, LostCalls, Names, Routes, group};
use kodiak_inspection::why::{CallVerdict, WhyContext, why};
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_oracle::meshes::{MESH, Mesh, Sidecar, all_meshes};
use kodiak_oracle::settled::Settled;
use kodiak_oracle::{Answer, Reason};
use kodiak_reachability::Mode;
use kodiak_rules::Shadow;
use kodiak_services::reachable::has_legacy_destinations;
use kodiak_world::World;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;

const CASES: u32 = 32;

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn why_tells_whether_a_call_is_answered(
        mesh in all_meshes(),
        before in proptest::option::of(all_meshes()),
        is_on in any::<bool>(),
    ) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let settled = match before {
            Some(before) => settled.moving_from(&Settled::of(before.documents()).unwrap()),
            None => settled,
        };
        let mode = if is_on { Mode::On } else { Mode::Off };
        let oracle = settled.oracle(mode);
        let context = WhyContext { reachability: mode, offline: true, ..WhyContext::default() };
        for client in &mesh.sidecars {
            for (destination, address, port) in called(&mesh, &settled, client) {
                let truth = oracle.call(&client.name, &address, port);
                let answer = why(&settled.world, MESH, context, &client.name, &destination, &Cancellation::never());
                let answer = answer.map_err(|error| TestCaseError::fail(format!("{destination}: {error}")))?;
                let works = answer.verdict == CallVerdict::Works;
                let agrees = works == truth.is_answered() || matches!(truth, Answer::Unknown(_));
                prop_assert!(agrees, "{} calls {}: {}, but {:#?}", client.name, destination, truth, answer);
            }
        }
    }

    #[test]
    fn graph_has_the_calls_that_are_answered(mesh in all_meshes()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let calls = calls(&settled.world);
        let graph = CallGraph::of(&calls, None, None, &Cancellation::never()).unwrap();
        for ((client, destination), is_answered) in answered(&mesh, &settled) {
            let edges = graph.edges.iter().filter(|edge| {
                includes_client(&settled.world, &edge.clients, &client) && includes(&edge.destinations, &destination)
            });
            let edges: Vec<_> = edges.collect();
            prop_assert_eq!(!edges.is_empty(), is_answered, "{} calls {}: {:#?}", client, destination, edges);
        }
    }

    /// The change deletes a policy, or takes the place of the mesh in which it is deleted.
    #[test]
    fn check_lists_the_calls_that_a_change_loses(mesh in all_meshes(), deleted in any::<Index>(), is_back in any::<bool>()) {
        let documents = mesh.documents();
        let decides = |document: &Value| ["MeshTrafficPermission", "MeshTLS"].iter().any(|kind| document["type"] == *kind);
        let policies: Vec<usize> = (0..documents.len()).filter(|n| decides(&documents[*n])).collect();
        prop_assume!(!policies.is_empty());
        let mut without = documents.clone();
        without.remove(*deleted.get(&policies));
        let [whole, less] = [documents, without].map(|documents| Settled::of(documents).unwrap());
        let (before, after) = if is_back { (less, whole) } else { (whole, less) };
        let lost = LostCalls::between(&calls(&before.world), &calls(&after.world), &Cancellation::never()).unwrap();
        let later = answered(&mesh, &after);
        for ((client, destination), was_answered) in answered(&mesh, &before) {
            let Some(is_answered) = later.get(&(client.clone(), destination.clone())) else { continue };
            let is_lost = lost.calls.iter().any(|lost| {
                includes_client(&after.world, &lost.clients, &client) && includes(&lost.destinations, &destination)
            });
            prop_assert_eq!(is_lost, was_answered && !is_answered, "{} calls {}: {:#?}", client, destination, lost);
        }
    }
}

/// Destinations of a client as people write them, and the address that its application calls.
fn called(mesh: &Mesh, settled: &Settled, client: &Sidecar) -> Vec<(String, String, u16)> {
    if client.is_redirected() {
        let all = settled.destinations().into_iter();
        return all.map(|(_, address, port)| (format!("{address}:{port}"), address.to_string(), port)).collect();
    }
    // Elsewhere, the name of a service means its MeshService.
    let legacy = has_legacy_destinations(settled.world.mesh_services_mode(MESH));
    let whole = mesh.outbounds(client).into_iter().filter(|outbound| legacy && outbound.tags.len() == 1);
    whole.map(|outbound| (outbound.tags["kuma.io/service"].clone(), outbound.address, outbound.port)).collect()
}

fn calls(world: &World) -> Calls {
    Calls::of(world, MESH, Shadow::Ignored, &Cancellation::never()).unwrap()
}

/// Pairs of clients and destinations of which permissions and TLS decide, and whether one port at least answers. Routes and
/// lists of the client, and destinations without Dataplanes, are not about these.
fn answered(mesh: &Mesh, settled: &Settled) -> BTreeMap<(String, String), bool> {
    let oracle = settled.oracle(Mode::Off);
    let routes = Routes::of(&settled.world, MESH);
    let mut pairs: BTreeMap<(String, String), Answer> = BTreeMap::new();
    let mut others = BTreeSet::new();
    for client in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
        let proxy = settled.world.proxy(&ProxyKey::new(MESH, &client.name)).unwrap();
        let own = routes.client(proxy);
        for (name, address, port) in settled.destinations() {
            let pair = (client.name.clone(), name.clone());
            let is_routed = own.backends(&backend(&settled.world, &name, port)).is_some();
            let answer = oracle.call(&client.name, &address.to_string(), port);
            if is_routed || !is_served(&settled.world, &name) || is_undecided(&answer) {
                others.insert(pair);
            } else {
                let known = pairs.entry(pair).or_insert(Answer::Refused(Reason::NotConfigured));
                *known = Answer::of([known.clone(), answer]);
            }
        }
    }
    pairs.retain(|pair, _| !others.contains(pair));
    pairs.into_iter().map(|(pair, answer)| (pair, answer.is_answered())).collect()
}

fn is_undecided(answer: &Answer) -> bool {
    matches!(answer, Answer::Unknown(_) | Answer::Refused(Reason::NotConfigured))
}

/// Whether something is behind the destination.
fn is_served(world: &World, name: &str) -> bool {
    let behind = kodiak_reachability::inbounds_behind(world, MESH);
    let target = behind.iter().find(|(target, _)| kodiak_inspection::calls::target_name(target) == name);
    target.is_none_or(|(_, inbounds)| inbounds.is_some()) || name.starts_with("kri_extsvc_")
}

pub(crate) fn backend(world: &World, name: &str, port: u16) -> Backend {
    let object = world.destinations(MESH).find(|destination| destination.kri.to_string() == name);
    match object {
        None => Backend::Service(BTreeMap::from([("kuma.io/service".to_owned(), name.to_owned())])),
        Some(object) => {
            let port = object.ports.iter().find(|own| own.port == u32::from(port)).unwrap();
            Backend::Port(object.clone(), port.clone())
        }
    }
}

fn includes(names: &Names, name: &str) -> bool {
    match names {
        Names::All => true,
        Names::AllExcept(others) => !others.iter().any(|other| other == name),
        Names::Only(some) => some.iter().any(|one| one == name),
    }
}

/// A client is listed by its service, or as `service/dataplane`.
fn includes_client(world: &World, names: &Names, client: &str) -> bool {
    let service = group(world.proxy(&ProxyKey::new(MESH, client)).unwrap());
    let own = format!("{service}/{client}");
    match names {
        Names::AllExcept(_) => includes(names, &service) && includes(names, &own),
        Names::All | Names::Only(_) => includes(names, &service) || includes(names, &own),
    }
}

/// The properties are about something: meshes have calls of both kinds.
#[test]
fn random_meshes_have_answered_and_refused_calls() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut counts = [0, 0];
    for _ in 0..16 {
        let mesh = all_meshes().new_tree(&mut runner).unwrap().current();
        let settled = Settled::of(mesh.documents()).unwrap();
        for is_answered in answered(&mesh, &settled).into_values() {
            counts[usize::from(is_answered)] += 1;
        }
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}
