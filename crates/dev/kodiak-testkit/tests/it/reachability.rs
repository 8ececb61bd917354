//! Properties of proxies that get only the destinations that they may call.

use std::collections::BTreeSet;

use kodiak_engine::{EngineChange, offline::OfflineMesh};
use kodiak_model::ProxyKey;
use kodiak_reachability::Mode;
use kodiak_testkit::simulate::{self, Called, Refusal, Request, SimulatedProxy, Workload};
use proptest::prelude::*;
use serde_json::json;

use kodiak_oracle::meshes::{MESH, Mesh, Sidecar, requests, whole_meshes};
use kodiak_oracle::settled::{Settled, offline_with};

/// Enough for every endpoint and every backend of a route.
pub(crate) const DICE: u64 = 12;

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    /// A call that gets through when all destinations are configured gets through when those are trimmed that the caller may
    /// not call, in the same way.
    #[test]
    fn no_call_is_cut_off_that_would_have_worked(mesh in whole_meshes(), requests in requests()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| {
            let mut engine = offline_with(mode, settled.changes());
            settled.connect(&mut engine);
            simulated(&mesh, &engine)
        });
        compare(&mesh, &settled, &everything, &trimmed, &requests)?;
    }
}

proptest! {
    // One update for each policy.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same when policies come one by one, and each may be gone again.
    #[test]
    fn no_call_is_cut_off_after_any_change_of_policies(
        mesh in whole_meshes(),
        requests in requests(),
        kept in prop::collection::vec(any::<bool>(), 16),
    ) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let is_policy = |change: &EngineChange| matches!(change, EngineChange::Policy { .. });
        let (policies, others): (Vec<_>, Vec<_>) = settled.changes().into_iter().partition(is_policy);
        let [everything, trimmed] = [Mode::Off, Mode::On].map(|mode| {
            let mut engine = offline_with(mode, others.clone());
            settled.connect(&mut engine);
            for change in &policies {
                engine.change([change.clone()]).unwrap();
            }
            for (change, _) in policies.iter().zip(kept.iter().cycle()).filter(|(_, kept)| !**kept) {
                let EngineChange::Policy { mesh, key, .. } = change.clone() else { continue };
                engine.change([EngineChange::Policy { mesh, key, policy: None }]).unwrap();
            }
            simulated(&mesh, &engine)
        });
        compare(&mesh, &settled, &everything, &trimmed, &requests)?;
    }
}

/// A caller that no policy allows has no outbound left, so that the properties above are about something.
#[test]
fn mesh_without_permissions_is_trimmed() {
    let dataplane = |n: u32, service: &str| {
        json!({ "type": "Dataplane", "mesh": MESH, "name": format!("proxy-{n}"), "networking": {
            "address": format!("10.0.0.{n}"),
            "inbound": [{ "port": 8080, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } }],
            "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "ipFamilyMode": "IPv4" },
        } })
    };
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    let mesh = json!({ "type": "Mesh", "name": MESH, "mtls": mtls });
    let settled = Settled::of(vec![mesh, dataplane(1, "a"), dataplane(2, "b")]).unwrap();
    let outbounds = |mode: Mode| {
        let mut engine = offline_with(mode, settled.changes());
        settled.connect(&mut engine);
        let snapshot = engine.snapshot(&ProxyKey::new(MESH, "proxy-1")).unwrap();
        snapshot.of(kodiak_xds_stream::TypeUrl::Endpoint).len()
    };
    assert_eq!((outbounds(Mode::Off), outbounds(Mode::Shadow), outbounds(Mode::On)), (2, 2, 0));
}

pub(crate) fn simulated(mesh: &Mesh, engine: &OfflineMesh) -> Vec<SimulatedProxy> {
    let proxy = |sidecar: &Sidecar| {
        let snapshot = engine.snapshot(&ProxyKey::new(MESH, &sidecar.name)).unwrap();
        SimulatedProxy::of(&snapshot.resources).unwrap()
    };
    mesh.sidecars.iter().map(proxy).collect()
}

fn compare(
    mesh: &Mesh,
    settled: &Settled,
    everything: &[SimulatedProxy],
    trimmed: &[SimulatedProxy],
    requests: &[Request],
) -> Result<(), TestCaseError> {
    for (caller, sidecar) in mesh.sidecars.iter().enumerate().filter(|(_, sidecar)| sidecar.is_redirected()) {
        let addresses: BTreeSet<_> = settled.destinations().into_iter().collect();
        for (name, address, port) in addresses {
            for (request, dice) in requests[..2].iter().flat_map(|request| (0..DICE).map(move |dice| (request, dice))) {
                let request = request.clone().dice(dice);
                let made =
                    |proxies: &[SimulatedProxy]| call(mesh, proxies, caller, &address.to_string(), port, &request);
                let Ok(expected) = made(everything) else { continue };
                let outcome = made(trimmed);
                let is_same = outcome.as_ref().is_ok_and(|outcome| outcome.endpoint == expected.endpoint);
                prop_assert!(is_same, "{} calls {name} with {request:?}: {outcome:?}, not {expected:?}", sidecar.name);
            }
        }
    }
    Ok(())
}

pub(crate) fn call(
    mesh: &Mesh,
    proxies: &[SimulatedProxy],
    caller: usize,
    address: &str,
    port: u16,
    request: &Request,
) -> Result<Called, Refusal> {
    let uris: Vec<Vec<String>> = mesh.sidecars.iter().map(Sidecar::uris).collect();
    let at = |address: &str| mesh.sidecars.iter().position(|sidecar| sidecar.address == address);
    let workload = |n: usize| Workload { proxy: &proxies[n], uris: &uris[n] };
    simulate::call(workload(caller), |endpoint| at(&endpoint.address).map(workload), address, port, request)
}
