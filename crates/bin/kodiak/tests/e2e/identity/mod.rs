//! Certificates of MeshIdentities: proxies move between identities under load, and wrong identities are refused.

mod absence;
mod flows;
mod kept;
mod keys;
mod refused;
mod spire;
mod unlabelled;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use kodiak_crypto::{CaKeyType, KeyPair, RootCaParams, root_ca};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyUsagePurpose};
use serde_json::{Value, json};

use crate::harness::{
    Dataplane, Load, MESH, Mesh, Mtls, PATIENCE, Service, Setup, Sidecar, eventually, expect, workload_address,
};

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
                expect(self.are_issued(trust_domain).await, spiffe_ids(sidecar).await)
            })
            .await;
        }
        self.until_settled().await;
    }

    /// Until MeshServices and clients expect this SPIFFE ID.
    pub(crate) async fn until_expected(&self, id: &str) {
        eventually(&format!("clients expect {id}"), async || {
            let service = self.mesh.mesh_service("api").await.unwrap_or_default();
            let dump = self.web.admin("/config_dump?resource=dynamic_active_secrets").await?.text;
            expect(service["spec"]["identities"].to_string().contains(id) && dump.contains(id), service)
        })
        .await;
        self.until_settled().await;
    }

    /// Until both proxies trust CAs of this trust domain, and the rollout is over.
    pub(crate) async fn until_trusted(&self, trust_domain: &str) {
        for sidecar in [&self.web, &self.api] {
            eventually(&format!("{} trusts {trust_domain}", sidecar.dataplane.name), async || {
                let dump = sidecar.admin("/config_dump?resource=dynamic_active_secrets").await?.text;
                expect(dump.contains(&format!("spiffe://{trust_domain}/")), &sidecar.dataplane.name)
            })
            .await;
        }
        self.until_settled().await;
    }

    pub(crate) async fn until_condition(&self, identity: &str, kind: &str, status: &str, reason: &str) {
        let path = crate::harness::path("MeshIdentity", identity);
        eventually(&format!("{identity} has {kind}={status}"), async || {
            let identity = self.mesh.control_plane.get(&path).await.json();
            let conditions = identity["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_it = |each: &Value| each["type"] == kind && each["status"] == status && each["reason"] == reason;
            expect(conditions.iter().any(is_it), identity)
        })
        .await;
    }

    /// Token of the current step.
    pub(crate) async fn step(&self) -> String {
        let path = format!("/meshes/{MESH}/dataplanes/web/_status");
        let status = self.mesh.control_plane.get(&path).await.json();
        status["mTLS"]["step"].as_str().unwrap_or_default().to_owned()
    }

    /// Kills the control plane at every step that was not seen before, and starts it again, until both proxies have
    /// certificates of this trust domain.
    pub(crate) async fn crash_until_issued(mut self, trust_domain: &str, seen: &mut BTreeSet<String>) -> Self {
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < 2 * PATIENCE, "not moved to {trust_domain}: {}", self.step().await);
            let step = self.step().await;
            if !step.is_empty() && seen.insert(step) {
                let Self { mesh, web, api, _services: services } = self;
                self = Self { mesh: mesh.crash(async || ()).await, web, api, _services: services };
            } else if self.are_issued(trust_domain).await {
                return self;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn are_issued(&self, trust_domain: &str) -> bool {
        let is_of_domain = |id: &String| id.starts_with(&format!("spiffe://{trust_domain}/"));
        let mut all = true;
        for sidecar in [&self.web, &self.api] {
            all &= spiffe_ids(sidecar).await.is_ok_and(|ids| !ids.is_empty() && ids.iter().all(is_of_domain));
        }
        all
    }

    /// Until the rollout has reached its target.
    pub(crate) async fn until_settled(&self) {
        let path = format!("/meshes/{MESH}/dataplanes/web/_status");
        eventually("the rollout is over", async || {
            let status = self.mesh.control_plane.get(&path).await.json();
            let mtls = &status["mTLS"];
            expect(mtls["step"].is_string() && mtls["step"] == mtls["target"], status)
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

/// A CA that another one signed.
pub(crate) struct OwnCa {
    pub(crate) root: String,
    pub(crate) chain: String,
    pub(crate) key: String,
}

pub(crate) fn own_ca(trust_domain: &str) -> OwnCa {
    let root = root(trust_domain);
    let signer = rcgen::KeyPair::from_pem(root.key_pem.expose()).unwrap();
    let issuer = Issuer::from_ca_cert_pem(&root.cert_pem, signer).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "the mesh");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.use_authority_key_identifier_extension = true;
    let certificate = params.signed_by(&key, &issuer).unwrap().pem();
    OwnCa { chain: format!("{certificate}{}", root.cert_pem), root: root.cert_pem, key: key.serialize_pem() }
}

/// A root for a trust domain.
pub(crate) fn root(trust_domain: &str) -> KeyPair {
    let uri = format!("spiffe://{trust_domain}");
    let params = RootCaParams {
        common_name: trust_domain,
        expires_after: Duration::from_hours(24),
        key: CaKeyType::P256,
        uri_san: Some(&uri),
        now: Timestamp::now(),
    };
    root_ca(&params).unwrap()
}
