//! The destinations that a proxy may call: all, or those that its Dataplane names.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Choice, Kri, Labels, Protocol,
    kinds::{
        dataplane::{BackendKind, OutboundBackendRef, ReachableBackendRef},
        mesh::MeshServicesMode,
    },
    labels,
};
use kodiak_rules::{Meta, Proxy};

/// What proxies can call.
#[derive(Debug, Clone, PartialEq)]
pub struct Destination {
    pub kind: BackendKind,
    /// Of the whole resource.
    pub kri: Kri,
    pub labels: Arc<Labels>,
    pub ports: Vec<DestinationPort>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationPort {
    pub section: String,
    pub port: u32,
    pub protocol: Protocol,
}

/// What one reference of a Dataplane asks for.
struct Wanted<'a> {
    kind: Option<&'a Choice<BackendKind>>,
    name: &'a str,
    namespace: &'a str,
    labels: &'a BTreeMap<String, String>,
    port: Option<u32>,
}

/// Outbounds that are written by hand say it best, then `reachableBackends`; otherwise it is everything.
pub(super) fn reachable<'a>(
    destinations: &'a [Destination],
    mode: MeshServicesMode,
    proxy: &Proxy,
) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let written: Vec<_> = by_outbounds(destinations, proxy);
    if !written.is_empty() {
        return written;
    }
    let transparent = proxy.dataplane.networking.as_ref().and_then(|all| all.transparent_proxying.as_ref());
    if let Some(backends) = transparent.and_then(|all| all.reachable_backends.as_ref()) {
        let wanted: Vec<Wanted<'_>> = backends.refs.iter().map(Wanted::of_backend).collect();
        return with_ports(destinations, proxy, |destination, port| {
            wanted.iter().any(|wanted| wanted.takes(destination, port, proxy))
        });
    }
    // Who lists services by their tags has not asked for any other.
    let lists_services = transparent.is_some_and(|all| !all.reachable_services.is_empty());
    if lists_services || mode == MeshServicesMode::ReachableBackends {
        return Vec::new();
    }
    with_ports(destinations, proxy, |_, _| true)
}

/// A reference that means none, or more than one, leads nowhere.
fn by_outbounds<'a>(destinations: &'a [Destination], proxy: &Proxy) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let references = proxy.dataplane.outbounds().iter().filter_map(|outbound| outbound.backend_ref.as_ref());
    references
        .filter_map(|reference| {
            let wanted = Wanted::of_outbound(reference);
            let found = with_ports(destinations, proxy, |destination, port| wanted.takes(destination, port, proxy));
            match *found.as_slice() {
                [one] => Some(one),
                _ => None,
            }
        })
        .collect()
}

fn with_ports<'a>(
    destinations: &'a [Destination],
    proxy: &Proxy,
    wanted: impl Fn(&Destination, &DestinationPort) -> bool,
) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let served = destinations.iter().filter(|destination| destination.is_served_in(proxy.meta().zone()));
    let ports = served.flat_map(|destination| destination.ports.iter().map(move |port| (destination, port)));
    ports.filter(|(destination, port)| wanted(destination, port)).collect()
}

impl Destination {
    /// What is outside of the mesh is called from its own zone, if it has one.
    fn is_served_in(&self, zone: Option<&str>) -> bool {
        let own = self.labels.get(labels::ZONE).map(String::as_str);
        self.kind != BackendKind::MeshExternalService || own.is_none() || zone.is_none() || own == zone
    }
}

impl<'a> Wanted<'a> {
    fn of_backend(reference: &'a ReachableBackendRef) -> Self {
        let ReachableBackendRef { kind, name, namespace, port, labels } = reference;
        Self { kind: kind.as_ref(), name, namespace, labels, port: *port }
    }

    fn of_outbound(reference: &'a OutboundBackendRef) -> Self {
        let OutboundBackendRef { kind, name, namespace, port, labels } = reference;
        Self { kind: kind.as_ref(), name, namespace, labels, port: Some(*port).filter(|port| *port != 0) }
    }

    /// A name means a resource of the proxy's own zone and, where none is written, of its own namespace.
    fn takes(&self, destination: &Destination, port: &DestinationPort, proxy: &Proxy) -> bool {
        let Self { kind, name, namespace, labels, port: wanted_port } = self;
        let meta: Meta<'_> = proxy.meta();
        let is_meant = if labels.is_empty() {
            let Kri { zone, namespace: own, name: known, .. } = &destination.kri;
            let wanted = if namespace.is_empty() { meta.namespace().unwrap_or_default() } else { namespace };
            known == name && own == wanted && zone == meta.zone().unwrap_or_default()
        } else {
            labels.iter().all(|(key, value)| destination.labels.get(key) == Some(value))
        };
        is_meant
            && kind.is_some_and(|kind| kind.is(destination.kind))
            && wanted_port.is_none_or(|wanted| wanted == port.port)
    }
}

#[cfg(test)]
mod tests {
    use kodiak_model::{
        Kind,
        kinds::{mesh_external_service, mesh_multi_zone_service, mesh_service},
    };
    use serde_json::{Value, json};

    use super::*;

    fn destination(sort: BackendKind, name: &str, pairs: &Value, ports: &[u32]) -> Destination {
        let kind: &Kind = match sort {
            BackendKind::MeshService => &mesh_service::KIND,
            BackendKind::MeshExternalService => &mesh_external_service::KIND,
            BackendKind::MeshMultiZoneService => &mesh_multi_zone_service::KIND,
        };
        let labels: Labels = serde_json::from_value(pairs.clone()).unwrap();
        let port = |port: &u32| DestinationPort { section: port.to_string(), port: *port, protocol: Protocol::Tcp };
        Destination {
            kind: sort,
            kri: Kri::of(kind, "default", name, &labels).unwrap(),
            labels: Arc::new(labels),
            ports: ports.iter().map(port).collect(),
        }
    }

    #[track_caller]
    fn check(mode: MeshServicesMode, networking: &Value, expected: &[&str]) {
        let (east, west) = (json!({ "kuma.io/zone": "east", "team": "a" }), json!({ "kuma.io/zone": "west" }));
        let destinations = [
            destination(BackendKind::MeshService, "web", &east, &[80, 81]),
            destination(BackendKind::MeshService, "api", &east, &[80]),
            destination(BackendKind::MeshService, "web", &west, &[80]),
            destination(BackendKind::MeshExternalService, "bank", &json!({}), &[443]),
            destination(BackendKind::MeshExternalService, "far", &west, &[443]),
            destination(BackendKind::MeshMultiZoneService, "web", &json!({ "team": "a" }), &[80]),
        ];
        let proxy = Proxy {
            mesh: "default".into(),
            name: "client".into(),
            labels: Arc::new(serde_json::from_value(east).unwrap()),
            dataplane: Arc::new(serde_json::from_value(json!({ "networking": networking })).unwrap()),
        };
        let found = reachable(&destinations, mode, &proxy);
        let found: Vec<String> = found
            .into_iter()
            .map(|(destination, port)| {
                let Kri { short, zone, name, .. } = &destination.kri;
                format!("{short} {name} {zone} {}", port.section)
            })
            .collect();
        assert_eq!(found, expected, "{networking}");
    }

    const ALL: [&str; 6] = [
        "msvc web east 80",
        "msvc web east 81",
        "msvc api east 80",
        "msvc web west 80",
        "extsvc bank  443",
        "mzsvc web  80",
    ];

    fn backends(refs: &Value) -> Value {
        json!({ "transparentProxying": { "reachableBackends": { "refs": refs } } })
    }

    #[test]
    fn everything_is_reachable_until_somebody_says_otherwise() {
        check(MeshServicesMode::Exclusive, &json!({}), &ALL);
        check(MeshServicesMode::Everywhere, &json!({}), &ALL);
        check(MeshServicesMode::ReachableBackends, &json!({}), &[]);
        let services = json!({ "transparentProxying": { "reachableServices": ["web"] } });
        check(MeshServicesMode::Everywhere, &services, &[]);
        check(MeshServicesMode::Exclusive, &backends(&json!([])), &[]);
    }

    #[test]
    fn a_name_means_the_own_zone_and_labels_mean_all_that_have_them() {
        let exclusive = MeshServicesMode::Exclusive;
        let name = json!([{ "kind": "MeshService", "name": "web" }]);
        check(exclusive, &backends(&name), &["msvc web east 80", "msvc web east 81"]);
        let port = json!([{ "kind": "MeshService", "name": "web", "port": 81 }]);
        check(exclusive, &backends(&port), &["msvc web east 81"]);
        let namespace = json!([{ "kind": "MeshService", "name": "web", "namespace": "shop" }]);
        check(exclusive, &backends(&namespace), &[]);
        let labels = json!([{ "kind": "MeshService", "labels": { "team": "a" } }]);
        check(exclusive, &backends(&labels), &["msvc web east 80", "msvc web east 81", "msvc api east 80"]);
        let other = json!([{ "kind": "MeshMultiZoneService", "labels": { "team": "a" } }]);
        check(MeshServicesMode::ReachableBackends, &backends(&other), &["mzsvc web  80"]);
    }

    #[test]
    fn outbounds_say_it_better_unless_they_lead_nowhere_or_to_many() {
        let outbound = |reference: Value| {
            let mut networking = backends(&json!([{ "kind": "MeshService", "name": "api" }]));
            networking["outbound"] = json!([{ "port": 1, "backendRef": reference }]);
            networking
        };
        let exclusive = MeshServicesMode::Exclusive;
        let one = json!({ "kind": "MeshService", "name": "web", "port": 80 });
        check(exclusive, &outbound(one), &["msvc web east 80"]);
        let nowhere = json!({ "kind": "MeshService", "name": "gone", "port": 80 });
        check(exclusive, &outbound(nowhere), &["msvc api east 80"]);
        let many = json!({ "kind": "MeshService", "labels": { "team": "a" }, "port": 80 });
        check(exclusive, &outbound(many), &["msvc api east 80"]);
    }
}
