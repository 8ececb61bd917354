//! Reachable destinations of a proxy: all, or those that its Dataplane references.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{
    Kri, Labels, LegacyName,
    kinds::{
        dataplane::{BackendKind, OutboundBackendRef, ReachableBackendRef, TransparentProxying},
        mesh::MeshServicesMode,
    },
    labels, tags,
};
use kodiak_rules::{Meta, Proxy, outbound::NameResolution};

use kodiak_world::destination::{Destination, DestinationPort, KINDS};

/// Whether values of `kuma.io/service` are destinations: at virtual addresses, of outbounds with tags, and of route
/// backends without a port. Engine, inspection and migration all ask here.
pub fn has_legacy_destinations(mode: MeshServicesMode) -> bool {
    mode != MeshServicesMode::Exclusive
}

/// Meaning of the plain name of a MeshService in policies.
pub fn name_resolution(mode: MeshServicesMode) -> NameResolution {
    if has_legacy_destinations(mode) { NameResolution::Both } else { NameResolution::Objects }
}

/// Destinations of a transparent proxy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    Everything,
    Nothing,
    Listed(Arc<[Wanted]>),
}

/// Selector of one reference of a Dataplane. A name selects a resource of the proxy's own zone and, without a
/// namespace, of its own namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    kind: Option<BackendKind>,
    mesh: String,
    name: String,
    namespace: String,
    zone: String,
    /// Instead of the name; an empty map selects all resources of the kind.
    labels: Option<BTreeMap<String, String>>,
    port: Option<u32>,
}

impl Reach {
    /// `reachableBackends`; without them the objects that stand for `reachableServices`; without both all destinations,
    /// if the mode allows.
    pub fn of(mode: MeshServicesMode, proxy: &Proxy) -> Self {
        let transparent = transparent(proxy);
        if let Some(backends) = transparent.and_then(|all| all.reachable_backends.as_ref()) {
            return Self::Listed(backends.refs.iter().map(|reference| Wanted::by_backend(reference, proxy)).collect());
        }
        let services = transparent.map_or(&[][..], |all| &all.reachable_services);
        match mode {
            MeshServicesMode::ReachableBackends => Self::Nothing,
            _ if services.is_empty() => Self::Everything,
            // The migration has not begun: a proxy that lists services by their tags reaches no others.
            MeshServicesMode::Disabled => Self::Nothing,
            // A consumer moves to new hostnames, and to the last mode, without a second list.
            MeshServicesMode::Everywhere | MeshServicesMode::Exclusive => {
                Self::Listed(services.iter().flat_map(|service| Wanted::stand_ins(service, proxy)).collect())
            }
        }
    }

    pub fn takes(&self, destination: &Destination, port: &DestinationPort) -> bool {
        match self {
            Self::Everything => true,
            Self::Nothing => false,
            Self::Listed(refs) => refs.iter().any(|wanted| wanted.takes(destination, port)),
        }
    }
}

/// Destinations that a proxy has outbounds for.
#[derive(Debug, Clone, PartialEq)]
pub struct Outbounds<'a> {
    /// `kuma.io/service`, with more tags for a subset.
    pub services: BTreeSet<BTreeMap<String, String>>,
    pub ports: Vec<(&'a Destination, &'a DestinationPort)>,
}

/// Outbounds of a proxy in the given mode, as the engine makes them. `services` are the values of `kuma.io/service` in
/// the mesh.
pub fn outbounds<'a, 's>(
    mode: MeshServicesMode,
    proxy: &Proxy,
    redirected: bool,
    services: impl IntoIterator<Item = &'s str>,
    destinations: &'a [Arc<Destination>],
) -> Outbounds<'a> {
    let legacy = has_legacy_destinations(mode);
    if redirected {
        let listed = transparent(proxy).map(|all| &all.reachable_services).filter(|list| !list.is_empty());
        let is_listed = |service: &&str| listed.is_none_or(|list| list.iter().any(|one| one == service));
        let services = services.into_iter().filter(|_| legacy).filter(is_listed);
        let services = services.map(|service| BTreeMap::from([(tags::SERVICE.to_owned(), service.to_owned())]));
        let reach = Reach::of(mode, proxy);
        // Redirected connections reach virtual addresses alone.
        let takes =
            |destination: &Destination, port: &_| !destination.vips.is_empty() && reach.takes(destination, port);
        return Outbounds { services: services.collect(), ports: with_ports(destinations, proxy, takes) };
    }
    let with_tags = proxy.dataplane.usable_outbounds().filter(|outbound| outbound.backend_ref.is_none());
    let services =
        with_tags.map(|outbound| outbound.tags.clone()).filter(|tags| legacy && tags.contains_key(tags::SERVICE));
    Outbounds { services: services.collect(), ports: by_outbounds(destinations, proxy) }
}

fn transparent(proxy: &Proxy) -> Option<&TransparentProxying> {
    proxy.dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}

/// Reachable destinations of a proxy. Outbounds of the Dataplane decide, unless the proxy is transparent.
pub fn reachable<'a>(
    destinations: &'a [Arc<Destination>],
    mode: MeshServicesMode,
    proxy: &Proxy,
    redirected: bool,
) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let written: Vec<_> = by_outbounds(destinations, proxy);
    if !written.is_empty() && !redirected {
        return written;
    }
    let reach = Reach::of(mode, proxy);
    with_ports(destinations, proxy, |destination, port| reach.takes(destination, port))
}

/// A reference that matches no port, or more than one, has no effect.
fn by_outbounds<'a>(
    destinations: &'a [Arc<Destination>],
    proxy: &Proxy,
) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let references = proxy.dataplane.usable_outbounds().filter_map(|outbound| outbound.backend_ref.as_ref());
    references
        .filter_map(|reference| {
            let wanted = Wanted::by_outbound(reference, proxy);
            let found = with_ports(destinations, proxy, |destination, port| wanted.takes(destination, port));
            match *found.as_slice() {
                [one] => Some(one),
                _ => None,
            }
        })
        .collect()
}

fn with_ports<'a>(
    destinations: &'a [Arc<Destination>],
    proxy: &Proxy,
    wanted: impl Fn(&Destination, &DestinationPort) -> bool,
) -> Vec<(&'a Destination, &'a DestinationPort)> {
    let served = destinations.iter().filter(|destination| is_served_in(destination, proxy.meta().zone()));
    let ports = served.flat_map(|destination| destination.ports.iter().map(move |port| (&**destination, port)));
    ports.filter(|(destination, port)| wanted(destination, port)).collect()
}

/// A MeshExternalService with a zone is reachable from that zone only.
pub fn is_served_in(destination: &Destination, zone: Option<&str>) -> bool {
    let own = destination.labels.get(labels::ZONE).map(String::as_str);
    destination.kind() != BackendKind::MeshExternalService || own.is_none() || zone.is_none() || own == zone
}

impl Wanted {
    pub fn by_backend(reference: &ReachableBackendRef, proxy: &Proxy) -> Self {
        let ReachableBackendRef { kind, name, namespace, port, labels } = reference;
        let kind = kind.as_ref().and_then(kodiak_model::Choice::known);
        let labels = labels.clone().filter(|labels| name.is_empty() || !labels.is_empty());
        Self { labels, port: *port, ..Self::by_name(kind, name, namespace, proxy.meta()) }
    }

    pub fn by_outbound(reference: &OutboundBackendRef, proxy: &Proxy) -> Self {
        let OutboundBackendRef { kind, name, namespace, port, labels } = reference;
        let kind = kind.as_ref().and_then(kodiak_model::Choice::known);
        let port = Some(*port).filter(|port| *port != 0);
        let labels = Some(labels.clone()).filter(|labels| !labels.is_empty());
        Self { labels, port, ..Self::by_name(kind, name, namespace, proxy.meta()) }
    }

    /// Objects that stand for a value of `kuma.io/service`: the MeshService and the MeshMultiZoneService of that name, and
    /// for `a_ns_svc_80` port 80 of those in that namespace.
    pub fn stand_ins(service: &str, proxy: &Proxy) -> [Self; 2] {
        let (name, namespace, port) = match LegacyName::parse(service) {
            Some(LegacyName { name, namespace, port }) => (name, namespace, port),
            None => (service, "", None),
        };
        [BackendKind::MeshService, BackendKind::MeshMultiZoneService]
            .map(|kind| Self { port, ..Self::by_name(Some(kind), name, namespace, proxy.meta()) })
    }

    fn by_name(kind: Option<BackendKind>, name: &str, namespace: &str, asks: Meta<'_>) -> Self {
        let namespace = if namespace.is_empty() { asks.namespace().unwrap_or_default() } else { namespace };
        Self {
            kind,
            mesh: asks.mesh.to_owned(),
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            zone: asks.zone().unwrap_or_default().to_owned(),
            labels: None,
            port: None,
        }
    }

    pub fn kind(&self) -> Option<BackendKind> {
        self.kind
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Candidates by name: in the zone of the proxy, or without a zone. `None` for a reference by labels.
    pub fn named(&self) -> Option<BTreeSet<Kri>> {
        let Self { kind, mesh, name, namespace, zone, labels, port: _ } = self;
        if labels.is_some() {
            return None;
        }
        let known = KINDS.iter().filter(|(_, sort)| Some(*sort) == *kind).filter_map(|(kind, _)| kind.short);
        let kri = |short, zone: &str| Kri {
            short,
            mesh: mesh.clone(),
            zone: zone.to_owned(),
            namespace: namespace.clone(),
            name: name.clone(),
            section: String::new(),
        };
        Some(known.flat_map(|short| [kri(short, zone), kri(short, "")]).collect())
    }

    /// `None` for a reference by name.
    pub fn labels(&self) -> Option<&Labels> {
        self.labels.as_ref()
    }

    pub fn takes(&self, destination: &Destination, port: &DestinationPort) -> bool {
        self.means(destination) && self.port.is_none_or(|wanted| wanted == port.port)
    }

    /// Whether it matches the resource, at any port.
    pub fn means(&self, destination: &Destination) -> bool {
        let Self { kind, mesh: _, name, namespace, zone, labels, port: _ } = self;
        let is_meant = match labels {
            None => {
                let Kri { zone: of_zone, namespace: of_namespace, name: known, .. } = &destination.kri;
                known == name && of_namespace == namespace && (of_zone == zone || of_zone.is_empty())
            }
            Some(labels) => labels.iter().all(|(key, value)| destination.labels.get(key) == Some(value)),
        };
        is_meant && *kind == Some(destination.kind())
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kodiak_model::{
        Kind, Protocol,
        kinds::{mesh_external_service, mesh_multi_zone_service, mesh_service},
    };
    use serde_json::{Value, json};

    use super::*;
    use kodiak_world::{destination::Behind, redirects_outbound};

    fn destination(sort: BackendKind, name: &str, pairs: &Value, ports: &[u32]) -> Destination {
        let kind: &Kind = match sort {
            BackendKind::MeshService => &mesh_service::KIND,
            BackendKind::MeshExternalService => &mesh_external_service::KIND,
            BackendKind::MeshMultiZoneService => &mesh_multi_zone_service::KIND,
        };
        let labels: Labels = serde_json::from_value(pairs.clone()).unwrap();
        let port = |port: &u32| DestinationPort { section: port.to_string(), port: *port, protocol: Protocol::Tcp };
        let behind = match sort {
            BackendKind::MeshService => Behind::Service(Arc::default()),
            BackendKind::MeshExternalService => Behind::External(Arc::default()),
            BackendKind::MeshMultiZoneService => Behind::MultiZone(Arc::default()),
        };
        Destination {
            kri: Kri::of(kind, "default", name, &labels).unwrap(),
            name: name.into(),
            labels: Arc::new(labels),
            created: Timestamp::UNIX_EPOCH,
            ports: ports.iter().map(port).collect(),
            vips: Vec::new(),
            hostnames: Vec::new(),
            behind,
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
            admission: None,
        };
        let destinations = destinations.map(Arc::new);
        let redirected = redirects_outbound(&proxy.dataplane, None).unwrap_or_default();
        let found = reachable(&destinations, mode, &proxy, redirected);
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
    fn everything_is_reachable_by_default() {
        check(MeshServicesMode::Exclusive, &json!({}), &ALL);
        check(MeshServicesMode::Everywhere, &json!({}), &ALL);
        check(MeshServicesMode::ReachableBackends, &json!({}), &[]);
        let services = json!({ "transparentProxying": { "reachableServices": ["web"] } });
        let stand_ins = ["msvc web east 80", "msvc web east 81", "mzsvc web  80"];
        check(MeshServicesMode::Everywhere, &services, &stand_ins);
        check(MeshServicesMode::Exclusive, &services, &stand_ins);
        check(MeshServicesMode::Disabled, &services, &[]);
        check(MeshServicesMode::ReachableBackends, &services, &[]);
        check(MeshServicesMode::Exclusive, &backends(&json!([])), &[]);
    }

    #[test]
    fn name_selects_the_own_zone_and_labels_select_all_zones() {
        let exclusive = MeshServicesMode::Exclusive;
        let name = json!([{ "kind": "MeshService", "name": "web" }]);
        check(exclusive, &backends(&name), &["msvc web east 80", "msvc web east 81"]);
        let port = json!([{ "kind": "MeshService", "name": "web", "port": 81 }]);
        check(exclusive, &backends(&port), &["msvc web east 81"]);
        let namespace = json!([{ "kind": "MeshService", "name": "web", "namespace": "shop" }]);
        check(exclusive, &backends(&namespace), &[]);
        let labels = json!([{ "kind": "MeshService", "labels": { "team": "a" } }]);
        check(exclusive, &backends(&labels), &["msvc web east 80", "msvc web east 81", "msvc api east 80"]);
        let all = ["msvc web east 80", "msvc web east 81", "msvc api east 80", "msvc web west 80"];
        check(MeshServicesMode::ReachableBackends, &backends(&json!([{ "kind": "MeshService", "labels": {} }])), &all);
        let one = json!({ "kind": "MeshService", "labels": {} });
        let spelling = json!({ "transparentProxying": { "reachableBackendRefs": one } });
        check(MeshServicesMode::ReachableBackends, &spelling, &all);
        let other = json!([{ "kind": "MeshMultiZoneService", "labels": { "team": "a" } }]);
        check(MeshServicesMode::ReachableBackends, &backends(&other), &["mzsvc web  80"]);
    }

    #[test]
    fn outbounds_override_unless_they_match_none_or_many() {
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
