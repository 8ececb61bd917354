//! Machine with a transparent proxy and an application that calls services by hostname.

use std::{collections::BTreeSet, net::SocketAddrV4, path::Path};

use serde_json::Value;

use crate::harness::{Counts, Dataplane, Generator, Mesh, Sidecar, User, eventually, expect, network::Machine};

/// Where it would be called.
const PORT: u16 = 8080;

pub(super) struct Consumer {
    pub(super) application: Generator,
    sidecar: Sidecar,
    // After those that are there.
    _machine: Machine,
}

impl Consumer {
    /// The number is that of the machine; the program is this test, for everybody to read.
    pub(super) async fn start(mesh: &Mesh, user: &User, name: &str, number: u8, program: &Path, test: &str) -> Self {
        let machine = Machine::start(number).await;
        let user = User { machine: Some(machine.network), ..user.clone() };
        let dataplane = Dataplane::listening(name, SocketAddrV4::new(machine.address, PORT)).stored();
        let sidecar = mesh.sidecar_of(&user, dataplane, &["--transparent-proxy"]).await;
        let application = Generator::start(machine.network, program, test);
        Self { application, sidecar, _machine: machine }
    }

    /// Has its Dataplane list what it calls.
    pub(super) async fn reach(&self, mesh: &Mesh, refs: &Value) {
        mesh.store(&self.sidecar.dataplane.clone().reaching(refs)).await;
    }

    /// The clusters of MeshServices that its proxy has.
    pub(super) async fn objects(&self) -> Vec<String> {
        self.sidecar.clusters().await.into_iter().filter(|name| name.contains("_msvc_")).collect()
    }

    /// Until these are the clusters of MeshServices that its proxy has.
    pub(super) async fn until_objects(&self, expected: &[&str]) {
        eventually(&format!("{} has {expected:?}", self.name()), async || {
            let objects = self.objects().await;
            expect(objects == expected, objects)
        })
        .await;
    }

    pub(super) async fn until_has(&self, cluster: &str) {
        self.until_clusters(&format!("has {cluster}"), |clusters| clusters.contains(cluster)).await;
    }

    pub(super) async fn until_without(&self, without: &[&str]) {
        let has_none = |clusters: &BTreeSet<String>| !without.iter().any(|name| clusters.contains(*name));
        self.until_clusters(&format!("has none of {without:?}"), has_none).await;
    }

    async fn until_clusters(&self, what: &str, fine: impl Fn(&BTreeSet<String>) -> bool) {
        eventually(&format!("{} {what}", self.name()), async || {
            let clusters = self.sidecar.clusters().await;
            expect(fine(&clusters), clusters)
        })
        .await;
    }

    /// Until its proxy listens for so many ports of MeshServices.
    pub(super) async fn until_listeners(&self, count: usize) {
        eventually(&format!("{} has {count} listeners of MeshServices", self.name()), async || {
            let listeners = self.sidecar.listeners().await;
            expect(listeners.iter().filter(|name| name.starts_with("outbound:241.")).count() == count, listeners)
        })
        .await;
    }

    /// All that its application calls goes to this cluster, and nothing to the other one.
    pub(super) async fn calls(&mut self, cluster: &str, other: Option<&str>) {
        let carried = async |sidecar: &Sidecar| {
            let other = match other {
                Some(other) => sidecar.requests_to(other).await,
                None => None,
            };
            (sidecar.requests_to(cluster).await.unwrap_or_default(), other.unwrap_or_default())
        };
        let (before, other_before) = carried(&self.sidecar).await;
        self.application.go_on(100).await;
        let (after, other_after) = carried(&self.sidecar).await;
        // Those that were on their way at first are counted before and answered after.
        assert!(after >= before + 150, "{} calls {cluster}: {before} {after}", self.name());
        assert_eq!(other_before, other_after, "{} calls {other:?} no more", self.name());
    }

    pub(super) async fn counted(&mut self) -> Counts {
        self.application.counted().await
    }

    fn name(&self) -> &str {
        &self.sidecar.dataplane.name
    }
}
