//! Certificates of MeshIdentities: proxies move between identities under load, and wrong identities are refused.

mod flows;

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Dataplane, Load, MESH, Mesh, Mtls, Service, Setup, Sidecar, eventually, expect, workload_address};

pub(crate) const LEGACY: &str = "shop";

/// Two workloads that call each other.
pub(crate) struct Bed {
    pub(crate) mesh: Mesh,
    pub(crate) web: Sidecar,
    pub(crate) api: Sidecar,
    _services: [Service; 2],
}

impl Bed {
    pub(crate) async fn start(mtls: Mtls) -> Option<Self> {
        Self::start_with(mtls, Setup::default()).await
    }

    pub(crate) async fn start_with(mtls: Mtls, setup: Setup) -> Option<Self> {
        let mesh = Mesh::start_with(mtls, setup).await?;
        mesh.set_services("Exclusive").await;
        mesh.permit_all().await;
        let workload = async |name: &str, peer: &str| {
            let service = Service::start(name, workload_address()).await;
            let sidecar = mesh.sidecar(Dataplane::workload(name, &service, peer)).await;
            (service, sidecar)
        };
        let ((web_service, web), (api_service, api)) = tokio::join!(workload("web", "api"), workload("api", "web"));
        let bed = Self { mesh, web, api, _services: [web_service, api_service] };
        for sidecar in [&bed.web, &bed.api] {
            crate::harness::until_answered(sidecar.outbound()).await;
        }
        Some(bed)
    }

    /// Load in both directions, over connections that are kept and over new ones.
    pub(crate) fn load(&self) -> Load {
        Load::between([&self.web, &self.api])
    }

    pub(crate) async fn identity(&self, name: &str, spec: &Value) {
        self.mesh.put("MeshIdentity", name, spec).await;
    }

    /// Until both proxies have certificates of this trust domain, and the rollout is over.
    pub(crate) async fn until_issued(&self, trust_domain: &str) {
        for sidecar in [&self.web, &self.api] {
            eventually(&format!("{} has a certificate of {trust_domain}", sidecar.dataplane.name), async || {
                let ids = spiffe_ids(sidecar).await?;
                let is_of_domain = |id: &String| id.starts_with(&format!("spiffe://{trust_domain}/"));
                expect(!ids.is_empty() && ids.iter().all(is_of_domain), &ids)
            })
            .await;
        }
        self.until_settled().await;
    }

    /// Until the rollout has reached its target.
    pub(crate) async fn until_settled(&self) {
        let path = format!("/meshes/{MESH}/dataplanes/web/_status");
        eventually("the rollout is over", async || {
            let status = self.mesh.control_plane.get(&path).await.fine().json();
            let mtls = &status["mTLS"];
            expect(mtls["step"] == mtls["target"], status)
        })
        .await;
    }
}

/// For all proxies, with a CA that the control plane generates.
pub(crate) fn generated(trust_domain: &str) -> Value {
    let mut spec = announced(trust_domain);
    spec["provider"] = json!({
        "type": "Bundled",
        "bundled": { "insecureAllowSelfSigned": true, "autogenerate": { "enabled": true } },
    });
    spec
}

/// For all proxies, without a provider.
pub(crate) fn announced(trust_domain: &str) -> Value {
    json!({
        "selector": { "dataplane": { "matchLabels": {} } },
        "spiffeID": { "trustDomain": trust_domain, "path": "/workload/{{ .Workload }}" },
    })
}

/// SPIFFE IDs of the certificates that a proxy presents.
pub(crate) async fn spiffe_ids(sidecar: &Sidecar) -> Result<BTreeSet<String>, String> {
    let leaves = leaves(sidecar).await?;
    let sans = leaves.iter().flat_map(|leaf| leaf["subject_alt_names"].as_array().cloned().unwrap_or_default());
    let uris = sans.filter_map(|san| san["uri"].as_str().map(str::to_owned));
    Ok(uris.filter(|uri| uri.starts_with("spiffe://")).collect())
}

/// Certificates of the mesh that a proxy presents.
pub(crate) async fn leaves(sidecar: &Sidecar) -> Result<Vec<Value>, String> {
    let certificates = sidecar.admin("/certs").await?.json();
    let all = certificates["certificates"].as_array().into_iter().flatten();
    let chains = all.filter_map(|each| each["cert_chain"].as_array()?.first().cloned());
    Ok(chains.filter(|leaf| leaf["subject_alt_names"].to_string().contains("spiffe://")).collect())
}
