//! Properties of random meshes with all kinds in force.

use kodiak_engine::{EngineChange, offline::OfflineMesh, redacted};
use kodiak_model::ProxyKey;
use kodiak_testkit::simulate::{self, Refusal, Request, SimulatedProxy, Workload};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use serde_json::Value;

use crate::agreement::oracle::Oracle;
use kodiak_oracle::meshes::{MAIN_PORT, MESH, Mesh, Sidecar, requests, whole_meshes};
use kodiak_oracle::settled::{Settled, offline};

/// Endpoints outside of the mesh of which each has its own authority, which the simulator does not choose.
const DIFFERENT_HOSTS: &str = "the host of endpoints with different names";

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_proxy_of_a_valid_mesh_gets_a_valid_configuration(mesh in whole_meshes()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let mut engine = offline(settled.changes());
        for (proxy, faults) in settled.connect(&mut engine) {
            prop_assert!(faults.is_empty(), "{}: {faults:?}", proxy.name);
        }
    }

    /// Between two proxies of a mesh only a permission, a route or missing endpoints stop a call.
    #[test]
    fn calls_are_denied_by_permissions_alone(mesh in whole_meshes(), requests in requests()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let changes = settled.changes();
        let oracle = Oracle::of(&changes);
        let mut engine = offline(changes);
        settled.connect(&mut engine);
        let simulated: Vec<SimulatedProxy> = mesh.sidecars.iter().map(|sidecar| {
            let snapshot = engine.snapshot(&ProxyKey::new(MESH, &sidecar.name)).unwrap();
            SimulatedProxy::of(&snapshot.resources).unwrap()
        }).collect();
        let calls = Calls { mesh: &mesh, oracle: &oracle, simulated: &simulated };
        for (caller, sidecar) in mesh.sidecars.iter().enumerate().filter(|(_, sidecar)| sidecar.is_redirected()) {
            for (name, address, port) in settled.destinations() {
                for request in &requests[..2] {
                    let what = format!("{} calls {name} at {address}:{port} with {request:?}", sidecar.name);
                    calls.check(caller, &address.to_string(), port, request, &what)?;
                }
            }
        }
    }
}

proptest! {
    // One update for each policy.
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    /// The state is the last one, whatever the order in which policies came, and whatever was there before.
    #[test]
    fn configuration_does_not_depend_on_the_order_of_policies(mesh in whole_meshes(), seed in any::<usize>()) {
        let settled = Settled::of(mesh.documents()).map_err(TestCaseError::fail)?;
        let mut at_once = offline(settled.changes());
        settled.connect(&mut at_once);
        let is_policy = |change: &EngineChange| matches!(change, EngineChange::Policy { .. });
        let (mut policies, others): (Vec<_>, Vec<_>) = settled.changes().into_iter().partition(is_policy);
        let mut one_by_one = offline(others);
        settled.connect(&mut one_by_one);
        while !policies.is_empty() {
            let next = policies.remove(seed % policies.len());
            one_by_one.change([next]).map_err(|faults| TestCaseError::fail(faults.join("; ")))?;
        }
        for proxy in settled.proxies() {
            prop_assert_eq!(config(&one_by_one, &proxy), config(&at_once, &proxy), "{}", proxy.name);
        }
    }
}

struct Calls<'a> {
    mesh: &'a Mesh,
    oracle: &'a Oracle,
    simulated: &'a [SimulatedProxy],
}

impl Calls<'_> {
    fn check(&self, caller: usize, address: &str, port: u16, request: &Request, what: &str) -> TestCaseResult {
        let uris: Vec<Vec<String>> = self.mesh.sidecars.iter().map(Sidecar::uris).collect();
        let at = |address: &str| self.mesh.sidecars.iter().position(|sidecar| sidecar.address == address);
        let from = Workload { proxy: &self.simulated[caller], uris: &uris[caller] };
        let sent = from.proxy.outbound(address, port, request, &simulate::Connection::default());
        let outcome = simulate::call(
            from,
            |endpoint| at(&endpoint.address).map(|n| Workload { proxy: &self.simulated[n], uris: &uris[n] }),
            address,
            port,
            request,
        );
        let endpoint = sent.as_ref().ok().and_then(|sent| sent.forwarded()?.endpoint(request.dice).cloned());
        let server = endpoint.and_then(|endpoint| Some((at(&endpoint.address)?, endpoint.port)));
        let from = &self.mesh.sidecars[caller];
        // Which of its identities decides about a caller with several, `agreement` does not say.
        let allowed = server.filter(|_| from.second.is_none()).map(|(server, port)| {
            let inbound = usize::from(port != MAIN_PORT);
            !self.mesh.has_mtls() || self.oracle.may_call_inbound(from, &self.mesh.sidecars[server], inbound)
        });
        match outcome {
            Ok(_) => prop_assert!(allowed != Some(false), "{what}, and it gets through"),
            Err(Refusal::Denied { .. }) => prop_assert!(allowed != Some(true), "{what}, and it is denied"),
            Err(Refusal::NoCluster(cluster)) => prop_assert!(cluster.starts_with("unresolved:"), "{what}: {cluster}"),
            // Listeners depend on the mode of the mesh; routes and endpoints on policies.
            Err(Refusal::NoListener { .. } | Refusal::NoRoute | Refusal::NoEndpoints(_)) => (),
            // The call leaves the mesh, to a MeshExternalService.
            Err(Refusal::Unsupported(setting)) if setting == DIFFERENT_HOSTS => (),
            Err(refusal) => return Err(TestCaseError::fail(format!("{what}, but {refusal}"))),
        }
        Ok(())
    }
}

fn config(engine: &OfflineMesh, proxy: &ProxyKey) -> Option<Value> {
    engine.snapshot(proxy).map(|snapshot| redacted::config(&snapshot).unwrap())
}
