//! Mesh with its own control plane.

use std::{net::SocketAddr, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Answer, ControlPlane, Dataplane, MESH, Service, Setup, Sidecar, User, eventually, expect, get, sidecar};

pub(crate) struct Mesh {
    // In the order in which they go.
    pub(crate) control_plane: ControlPlane,
    folder: TempDir,
}

/// Value of `spec.mtls`.
pub(crate) enum Mtls {
    Off,
    /// These backends, of which the first one signs.
    Strict(Vec<Value>),
}

impl Mtls {
    pub(crate) fn builtin(name: &str) -> Value {
        json!({ "name": name, "type": "builtin" })
    }

    fn spec(&self) -> Value {
        match self {
            Self::Off => json!(null),
            Self::Strict(backends) => json!({ "enabledBackend": backends[0]["name"], "backends": backends }),
        }
    }
}

impl Mesh {
    /// `None`, and loudly so, where there is no Envoy.
    pub(crate) async fn start(mtls: Mtls) -> Option<Self> {
        Self::start_with(mtls, Setup::default()).await
    }

    pub(crate) async fn start_with(mtls: Mtls, setup: Setup) -> Option<Self> {
        let mesh = Self::without_mesh(setup).await?;
        mesh.set(mtls).await;
        Some(mesh)
    }

    /// With the policies that every new mesh has unless somebody objects.
    pub(crate) async fn start_with_defaults() -> Option<Self> {
        let mesh = Self::without_mesh(Setup::default()).await?;
        mesh.control_plane.put(&format!("/meshes/{MESH}"), &json!({ "type": "Mesh", "name": MESH })).await;
        Some(mesh)
    }

    /// A control plane, whatever meshes its store has.
    pub(crate) async fn without_mesh(setup: Setup) -> Option<Self> {
        kodiak_testkit::envoy::envoy()?;
        let folder = tempfile::Builder::new().prefix("kodiak-e2e-").tempdir().unwrap();
        let control_plane = ControlPlane::start(folder.path(), setup).await;
        Some(Self { control_plane, folder })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends the control plane as a crash would, does something, and starts it again.
    pub(crate) async fn crash(self, meanwhile: impl AsyncFnOnce()) -> Self {
        let Self { control_plane, folder } = self;
        let killed = control_plane.kill();
        meanwhile().await;
        Self { control_plane: killed.start_again().await, folder }
    }

    /// The control plane starts again, with other variables in its environment.
    pub(crate) async fn with_environment(self, environment: &'static [(&'static str, &'static str)]) -> Self {
        let Self { control_plane, folder } = self;
        Self { control_plane: control_plane.kill().with_environment(environment).start_again().await, folder }
    }

    /// The control plane becomes that of another zone. What is stored stays as it is.
    pub(crate) async fn move_to(self, zone: &'static str) -> Self {
        let Self { control_plane, folder } = self;
        Self { control_plane: control_plane.kill().moved_to(zone).start_again().await, folder }
    }

    pub(crate) async fn set(&self, mtls: Mtls) {
        let mut document = json!({ "type": "Mesh", "name": MESH, "skipCreatingInitialPolicies": ["*"] });
        if let mtls @ Value::Object(_) = mtls.spec() {
            document["mtls"] = mtls;
        }
        self.control_plane.put(&format!("/meshes/{MESH}"), &document).await;
    }

    /// Changes mutual TLS, and nothing else of the mesh.
    pub(crate) async fn set_mtls(&self, mtls: Mtls) {
        let path = format!("/meshes/{MESH}");
        let mut document = self.control_plane.get(&path).await.fine().json();
        document["mtls"] = mtls.spec();
        self.control_plane.put(&path, &document).await;
    }

    /// Stores a Secret of the mesh.
    pub(crate) async fn secret(&self, name: &str, data: &str) {
        let data = BASE64_STANDARD.encode(data);
        let document = json!({ "type": "Secret", "mesh": MESH, "name": name, "data": data });
        self.control_plane.put(&path("Secret", name), &document).await;
    }

    /// Data of a Secret of the mesh.
    pub(crate) async fn secret_data(&self, name: &str) -> String {
        let secret = self.control_plane.get(&path("Secret", name)).await.fine().json();
        String::from_utf8(BASE64_STANDARD.decode(secret["data"].as_str().unwrap()).unwrap()).unwrap()
    }

    /// Changes labels, and nothing else of the mesh.
    pub(crate) async fn set_label(&self, key: &str, value: &str) {
        let path = format!("/meshes/{MESH}");
        let mut document = self.control_plane.get(&path).await.fine().json();
        document["labels"][key] = json!(value);
        self.control_plane.put(&path, &document).await;
    }

    /// Changes what services are, and nothing else of the mesh.
    pub(crate) async fn set_services(&self, mode: &str) {
        let path = format!("/meshes/{MESH}");
        let mut document = self.control_plane.get(&path).await.fine().json();
        document["meshServices"] = json!({ "mode": mode });
        self.control_plane.put(&path, &document).await;
    }

    /// Of the services, this one as it is stored; nothing where there is none.
    pub(crate) async fn mesh_service(&self, name: &str) -> Option<Value> {
        let answer = self.control_plane.get(&path("MeshService", name)).await;
        answer.status.is_success().then(|| answer.json())
    }

    /// Lets everybody call everybody.
    pub(crate) async fn permit_all(&self) {
        self.permit(&json!([{ "targetRef": { "kind": "Mesh" }, "default": { "action": "Allow" } }])).await;
    }

    pub(crate) async fn permit(&self, from: &Value) {
        let spec = json!({ "targetRef": { "kind": "Mesh" }, "from": from });
        self.put("MeshTrafficPermission", "permitted", &spec).await;
    }

    pub(crate) async fn forbid(&self) {
        self.delete("MeshTrafficPermission", "permitted").await;
    }

    /// Writes a policy.
    pub(crate) async fn put(&self, kind: &str, name: &str, spec: &Value) {
        let document = json!({ "type": kind, "mesh": MESH, "name": name, "spec": spec });
        self.control_plane.put(&path(kind, name), &document).await;
    }

    /// Writes a policy that is only tried out.
    pub(crate) async fn put_shadow(&self, kind: &str, name: &str, spec: &Value) {
        let labels = json!({ "kuma.io/effect": "shadow" });
        let document = json!({ "type": kind, "mesh": MESH, "name": name, "labels": labels, "spec": spec });
        self.control_plane.put(&path(kind, name), &document).await;
    }

    pub(crate) async fn delete(&self, kind: &str, name: &str) {
        self.control_plane.delete(&path(kind, name)).await;
    }

    /// Starts a proxy, and waits until it has what it needs.
    pub(crate) async fn sidecar(&self, dataplane: Dataplane) -> Sidecar {
        let sidecar = self.start_sidecar(dataplane, &[]).await;
        sidecar.wait_until_ready().await;
        sidecar
    }

    /// The same, with another user.
    pub(crate) async fn sidecar_of(&self, user: &User, dataplane: Dataplane, more: &[&str]) -> Sidecar {
        self.store(&dataplane).await;
        let token = self.control_plane.token(MESH, &dataplane.name, "24h").await;
        let sidecar = Sidecar::run_as(Some(user), &self.control_plane, self.folder(), dataplane, &token, more);
        sidecar.wait_until_ready().await;
        sidecar
    }

    pub(crate) async fn start_sidecar(&self, dataplane: Dataplane, more: &[&str]) -> Sidecar {
        self.store(&dataplane).await;
        let token = self.control_plane.token(MESH, &dataplane.name, "24h").await;
        Sidecar::run(&self.control_plane, self.folder(), dataplane, &token, more)
    }

    /// Those that their proxies bring are left to them.
    pub(crate) async fn store(&self, dataplane: &Dataplane) {
        if dataplane.is_stored {
            self.control_plane.put(&path("Dataplane", &dataplane.name), &dataplane.document()).await;
        }
    }

    /// One that serves `backend`.
    pub(crate) async fn backend(&self, name: &str) -> (Service, Sidecar) {
        self.serving(name, |service| Dataplane::serving(name, service)).await
    }

    /// One that serves something.
    pub(crate) async fn serving(
        &self,
        name: &str,
        dataplane: impl FnOnce(&Service) -> Dataplane,
    ) -> (Service, Sidecar) {
        let service = Service::start(name, sidecar::workload_address()).await;
        let sidecar = self.sidecar(dataplane(&service)).await;
        (service, sidecar)
    }

    /// One that calls it, once that works.
    pub(crate) async fn client(&self) -> Sidecar {
        self.client_as(Dataplane::calling("client")).await
    }

    pub(crate) async fn client_as(&self, dataplane: Dataplane) -> Sidecar {
        self.client_with(dataplane, &[]).await
    }

    pub(crate) async fn client_with(&self, dataplane: Dataplane, more: &[&str]) -> Sidecar {
        let client = self.start_sidecar(dataplane, more).await;
        client.wait_until_ready().await;
        until_answered(client.outbound()).await;
        until_answered(client.outbound_tcp()).await;
        client
    }

    pub(crate) async fn dataplane(&self, name: &str) -> Answer {
        self.control_plane.get(&format!("/meshes/{MESH}/dataplanes/{name}")).await
    }

    /// Nothing, if there is none yet.
    pub(crate) async fn insight(&self, name: &str) -> Value {
        let path = format!("/meshes/{MESH}/dataplanes/{name}/_overview");
        self.control_plane.get(&path).await.json()["dataplaneInsight"].clone()
    }

    /// Until all of these proxies have acknowledged this step of mTLS.
    pub(crate) async fn until_acknowledged(&self, proxies: &[&str], step: &str) {
        for proxy in proxies {
            eventually(&format!("{proxy} has acknowledged {step:?}"), async || {
                let acknowledged = self.acknowledged(proxy).await;
                expect(acknowledged == step, acknowledged)
            })
            .await;
        }
    }

    /// Until the rollout is at its target, and these proxies have acknowledged that. Steps before it may pass unseen.
    pub(crate) async fn until_rolled_out(&self, proxies: &[&str]) {
        for proxy in proxies {
            let path = format!("/meshes/{MESH}/dataplanes/{proxy}/_status");
            eventually(&format!("{proxy} has acknowledged the last step"), async || {
                let mtls = self.control_plane.get(&path).await.json()["mTLS"].clone();
                let acknowledged = self.acknowledged(proxy).await;
                let step = mtls["step"].as_str();
                expect(step.is_some() && mtls["target"].as_str() == step && step == Some(&acknowledged), mtls)
            })
            .await;
        }
    }

    /// Does something that changes what this proxy should have, and waits until it has that and nothing else.
    pub(crate) async fn until_taken(&self, proxy: &str, change: impl Future<Output = ()>) {
        let path = format!("/meshes/{MESH}/dataplanes/{proxy}/_status");
        let status = async || self.control_plane.get(&path).await.fine().json();
        let before = status().await["published"].as_u64();
        change.await;
        eventually(&format!("{proxy} has taken the change"), async || {
            let status = status().await;
            let (published, settled) = (status["published"].as_u64(), status["settled"].as_u64());
            expect(published > before && settled == published, status)
        })
        .await;
    }

    /// The step of mTLS at which this proxy is.
    pub(crate) async fn acknowledged(&self, proxy: &str) -> String {
        self.insight(proxy).await["mTLS"]["acknowledged"].as_str().unwrap_or_default().to_owned()
    }
}

pub(crate) fn path(kind: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None if kind.ends_with('s') || kind.ends_with("ch") => format!("{kind}es"),
        None => format!("{kind}s"),
    };
    format!("/meshes/{MESH}/{plural}/{name}")
}

/// Until a call through the proxy that listens here is answered by the workload.
pub(crate) async fn until_answered(outbound: SocketAddr) -> Answer {
    eventually("a call is answered", async || {
        let answer = get(outbound, "/").await?;
        if answer.status.is_success() { Ok(answer) } else { Err(format!("{answer:?}")) }
    })
    .await
}
