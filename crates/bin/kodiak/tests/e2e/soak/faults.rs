//! Faults of the soak, each under load.

use std::{process::Command, time::Duration};

use jiff::{SignedDuration, Timestamp};
use kodiak_crypto::{CaKeyType, RootCaParams, root_ca};
use serde_json::{Value, json};

use super::{Bed, Random, ca};
use crate::harness::{
    MESH, Mtls,
    cluster::{change, leader, until_calls, until_changed},
    eventually, expect, path,
};

/// Lifetime of a CA that expires.
const SHORT: Duration = Duration::from_secs(4);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    ControlPlaneIsKilled,
    ControlPlaneHangs,
    LeaderIsPaused,
    ControlPlaneIsCutOffFromTheDatabase,
    DatabaseRestarts,
    PacketsAreLost,
    ProxiesAreCutOff,
    StreamsBlinkInARollout,
    BackendIsReplaced,
    CaIsReplaced,
    CaExpires,
    TrustIsJunk,
    PatchIsFaulty,
    Nothing,
}

/// Those with these names, separated by commas; all for none.
pub(super) fn named(names: &str) -> Vec<Fault> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    let is_named = |fault: &Fault| names.is_empty() || names.contains(&&*format!("{fault:?}"));
    let found: Vec<Fault> = Fault::ALL.into_iter().filter(is_named).collect();
    assert!(!found.is_empty() && names.len() <= found.len(), "no fault has one of these names: {names:?}");
    found
}

impl Fault {
    const ALL: [Self; 14] = [
        Self::ControlPlaneIsKilled,
        Self::ControlPlaneHangs,
        Self::LeaderIsPaused,
        Self::ControlPlaneIsCutOffFromTheDatabase,
        Self::DatabaseRestarts,
        Self::PacketsAreLost,
        Self::ProxiesAreCutOff,
        Self::StreamsBlinkInARollout,
        Self::BackendIsReplaced,
        Self::CaIsReplaced,
        Self::CaExpires,
        Self::TrustIsJunk,
        Self::PatchIsFaulty,
        Self::Nothing,
    ];
}

impl Bed {
    pub(super) async fn suffer(mut self, fault: Fault, random: &mut Random) -> Self {
        let which = random.index(self.meshes.len());
        // As many more answers as there are about in up to ten seconds.
        let while_ = 30 + random.below(600);
        match fault {
            Fault::ControlPlaneIsKilled => {
                let mesh = self.meshes.remove(which);
                let mesh = mesh.crash(async || self.go_on(while_).await).await;
                self.meshes.insert(which, mesh);
            }
            Fault::ControlPlaneHangs => {
                self.meshes[which].control_plane.log().signal("-STOP");
                self.go_on(while_).await;
                self.meshes[which].control_plane.log().signal("-CONT");
            }
            Fault::LeaderIsPaused => self.pause_leader(while_).await,
            Fault::ControlPlaneIsCutOffFromTheDatabase => {
                self.door.close().await;
                self.go_on(while_).await;
                self.door.open_again().await;
            }
            Fault::DatabaseRestarts => {
                self.server.stop().unwrap();
                self.go_on(while_ / 4).await;
                self.server.run().unwrap();
            }
            Fault::PacketsAreLost | Fault::ProxiesAreCutOff => {
                let percent = if fault == Fault::PacketsAreLost { 5 + random.below(25) } else { 100 };
                let ports: Vec<_> = self.meshes.iter().map(|mesh| mesh.control_plane.proxy_port()).collect();
                self.loss.of(percent, &ports);
                self.go_on(while_).await;
                self.loss.heal();
            }
            Fault::StreamsBlinkInARollout => {
                let before = self.ca;
                self.start_ca(which).await;
                for _ in 0..5 {
                    self.blink();
                    self.go_on(20).await;
                }
                self.end_ca(which, before).await;
            }
            Fault::BackendIsReplaced => {
                self.add_backend(which).await;
                let (_, _, new) = self.backends.last().unwrap();
                for client in &self.clients {
                    until_calls(client, new.dataplane.inbound()).await;
                }
                let (_, service, old) = self.backends.remove(random.index(self.backends.len() - 1));
                old.terminate();
                old.ended().await;
                drop(service);
            }
            Fault::CaIsReplaced => {
                let before = self.ca;
                self.start_ca(which).await;
                self.go_on(while_ / 4).await;
                self.end_ca(which, before).await;
            }
            Fault::CaExpires => self.let_ca_expire(which).await,
            Fault::TrustIsJunk => self.write_junk_trust(which).await,
            Fault::PatchIsFaulty => self.write_faulty_patch(which, random).await,
            Fault::Nothing => (),
        }
        self
    }

    /// The leader is stopped until another one leads, and then goes on as if nothing had happened.
    async fn pause_leader(&self, requests: u64) {
        let mut instances = Vec::new();
        for mesh in &self.meshes {
            instances.push(mesh.control_plane.get("/").await.fine().json()["instanceId"].clone());
        }
        let (at, before) = eventually("a control plane leads", async || {
            let holder = leader(&self.server, &self.database);
            let at = instances.iter().position(|instance| holder.starts_with(instance.as_str().unwrap_or_default()));
            at.map(|at| (at, holder)).ok_or_else(|| format!("{instances:?}"))
        })
        .await;
        let paused = self.meshes[at].control_plane.log();
        paused.signal("-STOP");
        eventually("another one leads", async || {
            let now = leader(&self.server, &self.database);
            expect(!now.is_empty() && now != before, now)
        })
        .await;
        self.go_on(requests).await;
        paused.signal("-CONT");
    }

    /// Closes every connection between proxies and control planes.
    fn blink(&self) {
        for mesh in &self.meshes {
            let port = format!(":{}", mesh.control_plane.proxy_port());
            for end in ["dport", "sport"] {
                let output = Command::new("ss").args(["-K", "-tn", "state", "established", end, "=", &port]).output();
                assert!(output.unwrap().status.success(), "ss -K");
            }
        }
    }

    /// The next CA of the mesh signs, beside the one before.
    async fn start_ca(&mut self, at: usize) {
        self.ca += 1;
        self.set_backends(at, vec![ca(self.ca), ca(self.ca - 1)]).await;
    }

    async fn end_ca(&self, at: usize, before: u32) {
        let issued = format!("ca-{}", self.ca);
        for proxy in self.proxies() {
            eventually(&format!("{proxy} has a certificate of {issued}, not of ca-{before}"), async || {
                let mtls = self.meshes[at].insight(&proxy).await["mTLS"].clone();
                expect(mtls["issuedBackend"] == *issued, mtls)
            })
            .await;
        }
        self.set_backends(at, vec![ca(self.ca)]).await;
    }

    async fn set_backends(&self, at: usize, backends: Vec<Value>) {
        self.meshes[at].set_mtls(Mtls::Strict(backends)).await;
    }

    fn proxies(&self) -> Vec<String> {
        let backends = self.backends.iter().map(|(_, _, backend)| backend);
        self.clients.iter().chain(backends).map(|sidecar| sidecar.dataplane.name.clone()).collect()
    }

    /// A trusted CA expires. It is refused as the one that signs, and neither it nor the refusal holds up the next CA.
    async fn let_ca_expire(&mut self, at: usize) {
        let uri = format!("spiffe://{MESH}");
        let now = Timestamp::now();
        let params =
            RootCaParams { common_name: "short", expires_after: SHORT, key: CaKeyType::P256, uri_san: Some(&uri), now };
        let pair = root_ca(&params).unwrap();
        self.meshes[at].secret("short-cert", &pair.cert_pem).await;
        self.meshes[at].secret("short-key", pair.key_pem.expose()).await;
        let short = json!({
            "name": "short", "type": "provided",
            "conf": { "cert": { "secret": "short-cert" }, "key": { "secret": "short-key" } },
        });
        self.set_backends(at, vec![ca(self.ca), short.clone()]).await;
        while Timestamp::now() <= now + SignedDuration::try_from(SHORT).unwrap() {
            self.go_on(10).await;
        }
        let place = format!("/meshes/{MESH}");
        let mut document = self.meshes[at].control_plane.get(&place).await.fine().json();
        document["mtls"] = json!({ "enabledBackend": "short", "backends": [short, ca(self.ca)] });
        let answer = self.meshes[at].control_plane.try_put(&place, &document).await.unwrap();
        assert_eq!(answer.status.as_u16(), 400, "an expired CA signs nothing: {answer:?}");
        self.ca += 1;
        self.set_backends(at, vec![ca(self.ca), short, ca(self.ca - 1)]).await;
        self.end_ca(at, self.ca - 1).await;
        self.meshes[at].delete("Secret", "short-cert").await;
        self.meshes[at].delete("Secret", "short-key").await;
    }

    /// Refused; and trust in a CA that nobody uses comes and goes.
    async fn write_junk_trust(&self, at: usize) {
        let mesh = &self.meshes[at];
        let trust = |pem: &str| {
            let bundles = json!([{ "type": "Pem", "pem": { "value": pem } }]);
            let spec = json!({ "trustDomain": "other.local", "caBundles": bundles });
            json!({ "type": "MeshTrust", "mesh": MESH, "name": "other", "spec": spec })
        };
        let junk = "-----BEGIN CERTIFICATE-----\nanVuaw==\n-----END CERTIFICATE-----\n";
        let place = path("MeshTrust", "other");
        let answer = mesh.control_plane.try_put(&place, &trust(junk)).await.unwrap();
        assert_eq!(answer.status.as_u16(), 400, "junk is refused: {answer:?}");
        let other = crate::identity::root("other.local");
        mesh.control_plane.put(&place, &trust(&other.cert_pem)).await;
        self.go_on(30).await;
        mesh.delete("MeshTrust", "other").await;
    }

    /// Its proxies still get what has nothing to do with it.
    async fn write_faulty_patch(&mut self, at: usize, random: &mut Random) {
        let removed = json!({ "cluster": { "operation": "Remove", "match": { "origin": "inbound" } } });
        let spec = json!({ "default": { "appendModifications": [removed] } });
        self.meshes[at].put("MeshProxyPatch", "faulty", &spec).await;
        self.seconds += 1;
        change(&self.meshes[random.index(self.meshes.len())], self.seconds).await;
        for client in &self.clients {
            until_changed(client, self.seconds).await;
        }
        self.go_on(30).await;
        self.meshes[at].delete("MeshProxyPatch", "faulty").await;
    }
}
