//! Certificates and secrets that the engine requests from its caller.

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{ProxyKey, kinds::mesh_external_service::Source, labels, tags};
use kodiak_policies::mesh_traffic_permission;
use kodiak_rules::Proxy;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;

/// SAN of the client certificate with which a control plane authenticates to the admin listener of a proxy.
pub const ADMIN_CLIENT_NAME: &str = "kuma-cp";

/// Issues certificates. Equal requests return the same certificate until it is due for renewal.
pub trait Identities {
    /// The certificate of a proxy.
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String>;

    /// Root certificates (PEM) of a CA backend of the mesh.
    fn roots(&self, mesh: &str, backend: &str) -> Result<Arc<str>, String>;

    /// Content of a data source of a MeshExternalService: a Secret of the mesh, or inline text.
    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String>;

    /// Server certificate of the admin listener of a proxy. `None`: the proxy has no such listener.
    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>>;
}

/// Identifies a leaf certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeafRequest {
    pub proxy: ProxyKey,
    /// The backend of the mesh that signs.
    pub backend: Arc<str>,
    /// URI SANs, in the order of the certificate.
    pub uris: Arc<[String]>,
}

#[derive(Debug, Clone)]
pub struct Leaf {
    pub identity: Identity,
    /// Equal for leaves of the same request and period, also after a restart.
    pub version: Version,
    pub not_after: Timestamp,
    /// When the engine requests the next one.
    pub renew_at: Timestamp,
}

/// URI SANs of a proxy: its services, then its tags. `None` if it has neither a service nor a workload.
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

    fn uris_of(labels: &Value, networking: &Value) -> Option<Vec<String>> {
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
    fn uris_are_the_services_then_the_tags() {
        let inbound =
            |service: &str, version: &str| json!({ "tags": { "version": version, "kuma.io/service": service } });
        assert_eq!(
            uris_of(&json!({}), &json!({ "inbound": [inbound("b", "1"), inbound("a", "1")] })).unwrap(),
            [
                "spiffe://default/a",
                "spiffe://default/b",
                "kuma://kuma.io/service/a",
                "kuma://kuma.io/service/b",
                "kuma://version/1",
            ]
        );
        assert_eq!(
            uris_of(&json!({}), &json!({ "gateway": { "tags": { "kuma.io/service": "edge" } } })).unwrap(),
            ["spiffe://default/edge", "kuma://kuma.io/service/edge"]
        );
    }

    #[test]
    fn uri_of_a_proxy_without_a_service_is_its_workload() {
        let inbound = json!({ "inbound": [{ "port": 1 }] });
        assert_eq!(uris_of(&json!({ "kuma.io/workload": "w" }), &inbound).unwrap(), ["spiffe://default/w"]);
        assert_eq!(uris_of(&json!({}), &inbound), None);
    }
}
