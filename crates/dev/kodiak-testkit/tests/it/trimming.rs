//! Inspection agrees with the engine on trimmed destinations, and with simulated calls on those that work.

use std::collections::BTreeSet;

use kodiak_engine::offline::OfflineMesh;
use kodiak_inspection::calls::{Calls, Trimming, target_name};
use kodiak_inspection::why::{CallVerdict, WhyContext, why};
use kodiak_model::{Cancellation, ProxyKey};
use kodiak_reachability::{MeshGraph, Mode, Purpose};
use kodiak_rules::Shadow;
use kodiak_xds::names;
use kodiak_xds_stream::TypeUrl;
use proptest::prelude::*;

use crate::reachability::{DICE, call, simulated};
use kodiak_oracle::meshes::{MESH, requests, whole_meshes};
use kodiak_oracle::settled::{Settled, offline_with};

/// Destinations that a proxy has a listener for, by their names.
fn destinations(settled: &Settled, engine: &OfflineMesh, proxy: &str) -> BTreeSet<String> {
    let snapshot = engine.snapshot(&ProxyKey::new(MESH, proxy)).unwrap();
    let listeners: BTreeSet<String> = snapshot.of(TypeUrl::Listener).keys().map(ToString::to_string).collect();
    let is_present = |(_, vip, port): &(String, std::net::Ipv4Addr, u16)| {
        listeners.contains(&names::outbound_listener(&vip.to_string(), u32::from(*port)))
    };
    settled.destinations().into_iter().filter(is_present).map(|(name, ..)| name).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn report_shows_what_the_engine_trims(mesh in whole_meshes()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| {
            let mut engine = offline_with(mode, settled.changes());
            settled.connect(&mut engine);
            engine
        });
        let calls = Calls::of(&settled.world, MESH, Shadow::Ignored, &Cancellation::never()).unwrap();
        let trimming = Trimming::of(&settled.world, MESH, Mode::On, &Cancellation::never()).unwrap();
        for sidecar in mesh.sidecars.iter().filter(|sidecar| sidecar.is_redirected()) {
            let proxy = settled.world.proxy(&ProxyKey::new(MESH, &sidecar.name)).unwrap();
            let before = destinations(&settled, &everything, &sidecar.name);
            let after = destinations(&settled, &trimmed, &sidecar.name);
            let client = trimming.client(proxy);
            let is_trimmed = |name: &String| {
                let target = calls.destinations.iter().find(|target| target_name(target) == *name);
                trimming.exempt(proxy).is_none() && target.is_some_and(|target| client.trims(target))
            };
            let expected: BTreeSet<String> = before.iter().filter(|name| is_trimmed(name)).cloned().collect();
            let removed: BTreeSet<String> = before.difference(&after).cloned().collect();
            prop_assert_eq!(removed, expected, "{}", sidecar.name);
        }
    }

    #[test]
    fn why_has_no_problem_with_calls_that_work(mesh in whole_meshes(), requests in requests(), is_on in any::<bool>()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let mode = if is_on { Mode::On } else { Mode::Off };
        let mut engine = offline_with(mode, settled.changes());
        settled.connect(&mut engine);
        let proxies = simulated(&mesh, &engine);
        let context = WhyContext { reachability: mode, offline: true, ..WhyContext::default() };
        for (caller, sidecar) in mesh.sidecars.iter().enumerate().filter(|(_, sidecar)| sidecar.is_redirected()) {
            for (name, address, port) in settled.destinations() {
                let works = (0..DICE).any(|dice| {
                    let request = requests[0].clone().dice(dice);
                    let outcome = call(&mesh, &proxies, caller, &address.to_string(), port, &request);
                    // Connections without a listener pass through.
                    outcome.is_ok_and(|outcome| outcome.inbound.is_some())
                });
                let answer = why(&settled.world, MESH, context, &sidecar.name, &format!("{address}:{port}"), &Cancellation::never());
                let answer = answer.map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
                prop_assert!(!works || answer.verdict == CallVerdict::Works, "{name}: {answer:#?}");
            }
        }
    }
}

/// The properties above are about something: permissions of random meshes deny some calls.
#[test]
fn random_meshes_have_denied_calls() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let denied = (0..64).any(|_| {
        let mesh = whole_meshes().new_tree(&mut runner).unwrap().current();
        let Ok(settled) = Settled::of(mesh.documents()) else { return false };
        let graph =
            MeshGraph::of(&settled.world, MESH, Purpose::Calls, Shadow::Ignored, &Cancellation::never()).unwrap();
        let calls = Calls::of(&settled.world, MESH, Shadow::Ignored, &Cancellation::never()).unwrap();
        let clients: Vec<_> = settled.world.proxies(MESH).collect();
        clients.iter().any(|client| calls.destinations.iter().any(|target| !graph.may(&client.name, target).is_yes()))
    });
    assert!(denied);
}
