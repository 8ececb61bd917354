//! Certificates, as the engine asks for them.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{ProxyKey, kinds::mesh_external_service::Source, labels, tags};
use kodiak_policies::mesh_traffic_permission;
use kodiak_rules::Proxy;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;

/// The DNS name by which proxies know a control plane at their admin interface.
pub const ADMIN_CLIENT_NAME: &str = "kuma-cp";

/// Who makes certificates. Asking twice within the life of a certificate gives the same one.
pub trait Identities {
    /// The certificate of a proxy.
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String>;

    /// The certificates (PEM) by which the leaves of this backend of the mesh are believed.
    fn roots(&self, mesh: &str, backend: &str) -> Result<Arc<str>, String>;

    /// What a MeshExternalService refers to: the text of a Secret of the mesh, or what is written in place.
    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String>;

    /// For the listener through which the control plane asks a proxy's admin interface. `None`: no such listener.
    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>>;
}

/// What a leaf is made for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeafRequest {
    pub proxy: ProxyKey,
    /// The backend of the mesh that signs.
    pub backend: Arc<str>,
    /// The URIs that the proxy is known by, in the order of the certificate.
    pub uris: Arc<[String]>,
}

#[derive(Debug, Clone)]
pub struct Leaf {
    pub identity: Identity,
    /// Equal for leaves that were made from the same request for the same time, also after a restart.
    pub version: Version,
    pub not_after: Timestamp,
    /// From here on another one should be asked for.
    pub renew_at: Timestamp,
}

/// What a proxy is known by under the authority of its mesh: its services, then its tags. `None` when it has no name.
pub(crate) fn uris(mesh: &str, proxy: &Proxy) -> Option<Arc<[String]>> {
    let mut uris = mesh_traffic_permission::uris(mesh, proxy.dataplane.tag_sets());
    if !proxy.dataplane.tag_sets().any(|tags| tags.contains_key(tags::SERVICE)) {
        let workload = proxy.labels.get(labels::WORKLOAD)?;
        uris.insert(0, format!("spiffe://{mesh}/{workload}"));
    }
    Some(uris.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known_by(labels: &Value, networking: &Value) -> Option<Vec<String>> {
        let proxy = Proxy {
            mesh: "default".into(),
            name: "proxy".into(),
            labels: Arc::new(serde_json::from_value(labels.clone()).unwrap()),
            dataplane: Arc::new(serde_json::from_value(json!({ "networking": networking })).unwrap()),
            admission: None,
        };
        uris("default", &proxy).map(|uris| uris.to_vec())
    }

    #[test]
    fn a_proxy_is_known_by_its_services_then_its_tags() {
        let inbound =
            |service: &str, version: &str| json!({ "tags": { "version": version, "kuma.io/service": service } });
        assert_eq!(
            known_by(&json!({}), &json!({ "inbound": [inbound("b", "1"), inbound("a", "1")] })).unwrap(),
            [
                "spiffe://default/a",
                "spiffe://default/b",
                "kuma://kuma.io/service/a",
                "kuma://kuma.io/service/b",
                "kuma://version/1",
            ]
        );
        assert_eq!(
            known_by(&json!({}), &json!({ "gateway": { "tags": { "kuma.io/service": "edge" } } })).unwrap(),
            ["spiffe://default/edge", "kuma://kuma.io/service/edge"]
        );
    }

    #[test]
    fn without_a_service_it_is_known_by_its_workload() {
        let inbound = json!({ "inbound": [{ "port": 1 }] });
        assert_eq!(known_by(&json!({ "kuma.io/workload": "w" }), &inbound).unwrap(), ["spiffe://default/w"]);
        assert_eq!(known_by(&json!({}), &inbound), None);
    }
}
