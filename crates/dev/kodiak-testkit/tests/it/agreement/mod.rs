//! Property: the rules and the configuration agree on every call.
//!
//! Two evaluations of random small meshes. `oracle.rs` queries matching and merging about a caller and a destination,
//! and interprets their results by the documentation, independently of Envoy. The simulator gets the configuration that
//! the engine generates for every proxy, independently of policies.

mod inspection;
pub(crate) mod oracle;
mod routes;

use std::sync::Arc;

use kodiak_engine::{EngineSettings, offline::OfflineMesh};
use kodiak_model::ProxyKey;
use kodiak_testkit::simulate::{self, Forwarded, Refusal, Request, Sent, Workload};
use kodiak_xds::names;
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use kodiak_oracle::documents;
use kodiak_oracle::meshes::{MESH, Mesh, Outbound, Sidecar, meshes, requests};
use oracle::{Expected, Oracle};

/// A proxy with its simulated Envoy.
struct Configured {
    proxy: simulate::SimulatedProxy,
    uris: Vec<String>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn simulated_calls_agree_with_the_rules(mesh in meshes(), requests in requests()) {
        let changes: Vec<_> = mesh.documents().into_iter().map(|one| documents::change(one).unwrap()).collect();
        let oracle = Oracle::of(&changes);
        let settings = EngineSettings { zone: documents::ZONE.into(), ..EngineSettings::default() };
        let mut world = OfflineMesh::new(settings, MESH, changes).unwrap();
        let configured: Vec<Configured> = mesh.sidecars.iter().map(|sidecar| configured(&mut world, sidecar)).collect();
        for (caller, sidecar) in configured.iter().zip(&mesh.sidecars) {
            for outbound in mesh.outbounds(sidecar) {
                for request in &requests {
                    let call = Call { mesh: &mesh, oracle: &oracle, configured: &configured, outbound: &outbound, request };
                    call.agrees(caller, sidecar)?;
                }
            }
        }
    }
}

fn configured(world: &mut OfflineMesh, sidecar: &Sidecar) -> Configured {
    let snapshot = world
        .connect(&ProxyKey::new(MESH, &sidecar.name), Arc::new(documents::metadata(sidecar.is_redirected())))
        .unwrap();
    Configured { proxy: simulate::SimulatedProxy::of(&snapshot.resources).unwrap(), uris: sidecar.uris() }
}

struct Call<'a> {
    mesh: &'a Mesh,
    oracle: &'a Oracle,
    configured: &'a [Configured],
    outbound: &'a Outbound,
    request: &'a Request,
}

impl Call<'_> {
    fn agrees(&self, from: &Configured, sidecar: &Sidecar) -> TestCaseResult {
        let Outbound { tags, address, port } = self.outbound;
        let expected = self.oracle.about(sidecar, tags, self.mesh, self.request);
        let what = format!("{} calls {tags:?} with {:?}: {expected:?}", sidecar.name, self.request);
        let sent = from.proxy.outbound(address, *port, self.request, &simulate::Connection::default());
        let Expected::Forwarded { tags, http } = &expected else {
            let refused = match (&expected, &sent) {
                (Expected::NoRoute, Err(Refusal::NoRoute)) => true,
                (Expected::Closed, Err(Refusal::NoCluster(cluster))) => cluster.starts_with("unresolved:"),
                _ => false,
            };
            prop_assert!(refused, "{what}, but {sent:?}");
            return Ok(());
        };
        let cluster = names::service_cluster(tags);
        let serving: Vec<&Sidecar> = self.mesh.sidecars.iter().filter(|sidecar| sidecar.has(tags)).collect();
        if serving.is_empty() {
            prop_assert_eq!(sent, Err(Refusal::NoEndpoints(cluster)), "{}", what);
            return Ok(());
        }
        let sent = match sent {
            Ok(sent) => sent,
            Err(refusal) => return Err(TestCaseError::fail(format!("{what}, but {refusal}"))),
        };
        let forwarded = sent.forwarded().unwrap();
        prop_assert_eq!(&forwarded.cluster, &cluster, "{}", what);
        let addresses: Vec<&str> = forwarded.endpoints.iter().map(|endpoint| endpoint.address.as_str()).collect();
        let serving: Vec<&str> = serving.iter().map(|sidecar| sidecar.address.as_str()).collect();
        prop_assert_eq!(addresses, serving, "{}", what);
        let done = forwarded.http.as_ref();
        let done = done.map(|done| oracle::Http {
            timeout: done.timeout,
            retries: done.retry.as_ref().map(|retry| retry.num_retries.unwrap_or(1)),
        });
        prop_assert_eq!(&done, http, "{}", what);
        self.is_answered(from, sidecar, forwarded, &what)
    }

    /// On the server side: whether the server accepts the call, and its timeouts there.
    fn is_answered(&self, from: &Configured, sidecar: &Sidecar, sent: &Forwarded, what: &str) -> TestCaseResult {
        let at = |address: &str| self.mesh.sidecars.iter().position(|sidecar| sidecar.address == address);
        let chosen = sent.endpoint(self.request.dice).and_then(|endpoint| at(&endpoint.address)).unwrap();
        let serving = &self.mesh.sidecars[chosen];
        let outcome = simulate::call(
            Workload { proxy: &from.proxy, uris: &from.uris },
            |endpoint| {
                let Configured { proxy, uris } = &self.configured[at(&endpoint.address)?];
                Some(Workload { proxy, uris })
            },
            &self.outbound.address,
            self.outbound.port,
            self.request,
        );
        let allowed = !self.mesh.has_mtls() || self.oracle.may_call(sidecar, serving);
        match outcome {
            Ok(through) => {
                prop_assert!(allowed, "{}, and it gets through", what);
                let timeout =
                    through.inbound.as_ref().and_then(Sent::forwarded).unwrap().http.as_ref().map(|http| http.timeout);
                prop_assert_eq!(timeout, serving.speaks.http().then(|| self.oracle.received(serving)), "{}", what);
            }
            Err(Refusal::Denied { status, .. }) => {
                prop_assert!(!allowed, "{}, and {} denies it", what, serving.name);
                prop_assert_eq!(status, serving.speaks.http().then_some(403), "{}", what);
            }
            Err(refusal) => return Err(TestCaseError::fail(format!("{what}, but {refusal}"))),
        }
        Ok(())
    }
}
