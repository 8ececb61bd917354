//! Certificates of clients.

use kodiak_identity::Issuer;
use kodiak_model::{labels, tags};
use kodiak_policies::mesh_traffic_permission;
use kodiak_rollout::{Issuers, Rollout};
use kodiak_rules::Proxy;

use crate::Certificate;

/// URI SANs of a proxy: its services, then its tags. `None` if it has neither a service nor a workload.
pub fn certificate(mesh: &str, proxy: &Proxy) -> Option<Certificate> {
    let mut uris = mesh_traffic_permission::uris(mesh, proxy.dataplane.tag_sets());
    if !proxy.dataplane.tag_sets().any(|tags| tags.contains_key(tags::SERVICE)) {
        let workload = proxy.labels.get(labels::WORKLOAD)?;
        uris.insert(0, format!("spiffe://{mesh}/{workload}"));
    }
    Some(uris.into())
}

/// Certificate that the issuers give to a proxy. `None` without one.
pub fn issued(mesh: &str, proxy: &Proxy, issuers: &Issuers) -> Option<Certificate> {
    match kodiak_identity::issuer_of(issuers, proxy)? {
        Issuer::Backend(_) => certificate(mesh, proxy),
        Issuer::Identity { spiffe_id, .. } => Some([spiffe_id].into()),
    }
}

/// Certificates that a proxy may present at this step: of its issuers, and of those before or after. Without one it has no
/// identity.
pub fn certificates(mesh: &str, proxy: &Proxy, rollout: &Rollout) -> Vec<Certificate> {
    let mut all: Vec<Certificate> = Vec::new();
    for certificate in rollout.all_issuers().filter_map(|issuers| issued(mesh, proxy, issuers)) {
        if !all.contains(&certificate) {
            all.push(certificate);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
        certificate("default", &proxy).map(|uris| uris.to_vec())
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
