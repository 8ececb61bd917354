//! Certificates of clients.

use kodiak_model::{labels, tags};
use kodiak_policies::mesh_traffic_permission;
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
