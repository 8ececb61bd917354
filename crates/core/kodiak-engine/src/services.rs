//! The services of a mesh by `kuma.io/service`, and their endpoints.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use kodiak_model::{
    Labels, Protocol,
    kinds::dataplane::{Inbound, Networking},
    tags,
};
use kodiak_policies::target::EndpointLabels;
use kodiak_rules::Proxy;
use kodiak_services::tag_services::common_protocol;
use kodiak_xds::input::{Endpoint, Tags};

#[derive(Default)]
pub(crate) struct Services {
    by_name: BTreeMap<Arc<str>, Service>,
    /// Whether a proxy calls instances directly, also those that are not ready.
    instances_watched: bool,
}

#[derive(Default)]
pub(crate) struct Service {
    /// By Dataplane and position of the inbound.
    instances: BTreeMap<(Arc<str>, usize), Instance>,
    /// All ready endpoints, sorted.
    ready: Vec<Endpoint>,
    /// Unique endpoints of the whole service.
    endpoints: Arc<[Endpoint]>,
    labels: Arc<EndpointLabels>,
    /// Addresses of all instances, ready or not.
    addresses: Arc<[(Arc<str>, u32)]>,
    protocol: Option<Protocol>,
}

#[derive(Debug, Clone, PartialEq)]
struct Instance {
    endpoint: Endpoint,
    labels: Arc<Labels>,
    has_ip: bool,
    ready: bool,
    protocol: Protocol,
}

impl Services {
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_name.keys()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Service> {
        self.by_name.get(name)
    }

    /// From now on, instances that are not ready count as changes too.
    pub(crate) fn watch_instances(&mut self) {
        self.instances_watched = true;
    }

    /// Replaces a Dataplane. Returns the services that changed for callers.
    pub(crate) fn replace(
        &mut self,
        dataplane: &Arc<str>,
        old: Option<&Proxy>,
        new: Option<&Proxy>,
    ) -> BTreeSet<Arc<str>> {
        let (old, new) = (instances(old), instances(new));
        let mut touched = BTreeSet::new();
        for (service, position) in old.keys() {
            if !new.contains_key(&(service.clone(), *position))
                && let Some(known) = self.by_name.get_mut(service)
            {
                known.instances.remove(&(dataplane.clone(), *position));
                touched.insert(service.clone());
            }
        }
        for ((service, position), instance) in new {
            if old.get(&(service.clone(), position)) != Some(&instance) {
                let known = self.by_name.entry(service.clone()).or_default();
                known.instances.insert((dataplane.clone(), position), instance);
                touched.insert(service);
            }
        }
        touched.retain(|service| self.refresh(service));
        touched
    }

    /// Computes a service again. Returns whether it changed for callers.
    fn refresh(&mut self, name: &Arc<str>) -> bool {
        let Some(service) = self.by_name.get_mut(name) else { return false };
        if service.instances.is_empty() {
            self.by_name.remove(name);
            return true;
        }
        let instances = service.instances.values();
        let mut ready: Vec<Endpoint> = instances.filter(|each| each.ready).map(|each| each.endpoint.clone()).collect();
        ready.sort();
        let protocol = common_protocol(service.instances.values().filter(|each| each.ready).map(|each| each.protocol))
            .or_else(|| common_protocol(service.instances.values().map(|each| each.protocol)));
        let with_ip = || service.instances.values().filter(|each| each.has_ip);
        let address = |each: &Instance| (each.endpoint.address.clone(), each.endpoint.port);
        let labels: EndpointLabels =
            with_ip().filter(|each| each.ready).map(|each| (address(each), each.labels.clone())).collect();
        let addresses: BTreeSet<(Arc<str>, u32)> = with_ip().map(address).collect();
        let addresses: Arc<[_]> = addresses.into_iter().collect();
        let watched = self.instances_watched && addresses != service.addresses;
        let changed = watched || ready != service.ready || protocol != service.protocol || labels != *service.labels;
        service.protocol = protocol;
        service.ready = ready;
        service.labels = Arc::new(labels);
        service.addresses = addresses;
        service.endpoints = service.matching(|_| true);
        changed
    }
}

impl Service {
    /// Endpoints whose tags include these, except `kuma.io/service`.
    pub(crate) fn endpoints(&self, subset: &Tags) -> Arc<[Endpoint]> {
        let wanted = || subset.iter().filter(|(key, _)| *key != tags::SERVICE);
        if wanted().next().is_none() {
            return self.endpoints.clone();
        }
        self.matching(|endpoint| wanted().all(|(key, value)| endpoint.tags.get(key) == Some(value)))
    }

    /// Inbounds by the name of their Dataplane and their position, ready or not.
    pub(crate) fn inbounds(&self) -> impl Iterator<Item = (&str, usize)> {
        self.instances.keys().map(|(dataplane, position)| (&**dataplane, *position))
    }

    pub(crate) fn dataplanes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.instances.keys().map(|(dataplane, _)| dataplane)
    }

    /// Labels of the Dataplanes of ready endpoints.
    pub(crate) fn labels(&self) -> &Arc<EndpointLabels> {
        &self.labels
    }

    /// Addresses of all instances with an IP address, ready or not, by the name of their Dataplane.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (&Arc<str>, (&Arc<str>, u32))> {
        let with_ip = self.instances.iter().filter(|(_, instance)| instance.has_ip);
        with_ip.map(|((dataplane, _), Instance { endpoint, .. })| (dataplane, (&endpoint.address, endpoint.port)))
    }

    /// Common protocol of the ready instances. While there is none, that of all: an HTTP listener stays one.
    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol.unwrap_or(Protocol::Tcp)
    }

    fn matching(&self, wanted: impl Fn(&Endpoint) -> bool) -> Arc<[Endpoint]> {
        let mut endpoints: Vec<Endpoint> = self.ready.iter().filter(|endpoint| wanted(endpoint)).cloned().collect();
        // Envoy rejects duplicate endpoints, and two Dataplanes may have the same address.
        endpoints.dedup_by(|a, b| a.address == b.address && a.port == b.port);
        endpoints.into()
    }
}

fn instances(proxy: Option<&Proxy>) -> BTreeMap<(Arc<str>, usize), Instance> {
    let Some((proxy, networking)) = proxy.and_then(|proxy| Some((proxy, proxy.dataplane.networking.as_ref()?))) else {
        return BTreeMap::new();
    };
    let inbounds = networking.inbound.iter().enumerate().filter(|(_, inbound)| inbound.is_served());
    inbounds
        .filter_map(|(position, inbound)| {
            let service: Arc<str> = inbound.service()?.into();
            let endpoint = endpoint(networking, inbound);
            // Envoy rejects the whole ClusterLoadAssignment if one address is a hostname.
            let has_ip = endpoint.address.parse::<IpAddr>().is_ok();
            let (ready, protocol, labels) = (inbound.is_ready() && has_ip, inbound.protocol(), proxy.labels.clone());
            Some(((service, position), Instance { endpoint, labels, has_ip, ready, protocol }))
        })
        .collect()
}

/// The endpoint of an inbound. Its address may be a hostname.
pub(crate) fn endpoint(networking: &Networking, inbound: &Inbound) -> Endpoint {
    let address = match networking.advertised_address.as_str() {
        "" => inbound.address_or(&networking.address),
        advertised => advertised,
    };
    let mut tags = inbound.tags.clone();
    tags.remove(tags::SERVICE);
    Endpoint {
        zone: tags.get(tags::ZONE).map(String::as_str).unwrap_or_default().into(),
        address: address.into(),
        port: inbound.port,
        weight: 1,
        tags: Arc::new(tags),
        ..Endpoint::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dataplane(inbounds: &Value) -> Proxy {
        proxy(&json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } }))
    }

    fn proxy(dataplane: &Value) -> Proxy {
        Proxy {
            mesh: "default".into(),
            name: "one".into(),
            labels: Arc::default(),
            dataplane: Arc::new(serde_json::from_value(dataplane.clone()).unwrap()),
            admission: None,
        }
    }

    fn inbound(port: u32, service: &str, protocol: &str) -> Value {
        json!({ "port": port, "tags": { "kuma.io/service": service, "kuma.io/protocol": protocol } })
    }

    fn name(text: &str) -> Arc<str> {
        text.into()
    }

    #[test]
    fn replace_returns_only_services_that_changed() {
        let mut services = Services::default();
        let first = dataplane(&json!([inbound(1, "a", "http"), inbound(2, "b", "tcp")]));
        let touched = services.replace(&name("one"), None, Some(&first));
        assert_eq!(touched, BTreeSet::from([name("a"), name("b")]));
        let second = dataplane(&json!([inbound(1, "a", "http"), inbound(3, "b", "tcp")]));
        assert_eq!(services.replace(&name("one"), Some(&first), Some(&second)), BTreeSet::from([name("b")]));
        assert_eq!(services.names().cloned().collect::<BTreeSet<_>>(), BTreeSet::from([name("a"), name("b")]));
        assert_eq!(services.replace(&name("one"), Some(&second), Some(&second)), BTreeSet::new());
        assert_eq!(services.replace(&name("one"), Some(&second), None).len(), 2);
        assert_eq!(services.names().count(), 0);
    }

    #[test]
    fn unready_service_has_no_endpoints_but_keeps_its_protocol() {
        let mut services = Services::default();
        let mut down = inbound(1, "a", "http");
        down["state"] = json!("NotReady");
        services.replace(&name("one"), None, Some(&dataplane(&json!([down]))));
        let service = services.get("a").unwrap();
        assert!(service.endpoints(&Tags::new()).is_empty());
        assert_eq!(service.protocol(), Protocol::Http);
    }

    #[test]
    fn protocol_is_that_of_the_ready_instances() {
        let mut services = Services::default();
        let mut down = inbound(2, "a", "tcp");
        down["state"] = json!("NotReady");
        services.replace(&name("one"), None, Some(&dataplane(&json!([inbound(1, "a", "http"), down]))));
        assert_eq!(services.get("a").unwrap().protocol(), Protocol::Http);
    }

    #[test]
    fn changed_labels_are_a_change() {
        let mut services = Services::default();
        let first = dataplane(&json!([inbound(1, "a", "http")]));
        services.replace(&name("one"), None, Some(&first));
        let labels = Arc::new([("node".to_owned(), "n1".to_owned())].into());
        let second = Proxy { labels, ..first.clone() };
        assert_eq!(services.replace(&name("one"), Some(&first), Some(&second)).len(), 1);
        assert_eq!(services.get("a").unwrap().labels().values().next().unwrap()["node"], "n1");
    }

    #[test]
    fn instances_that_are_not_ready_count_when_they_are_watched() {
        let mut services = Services::default();
        let mut down = inbound(1, "a", "http");
        down["state"] = json!("NotReady");
        let (one, two) = (dataplane(&json!([down.clone()])), dataplane(&json!([inbound(1, "b", "http"), down])));
        services.replace(&name("one"), None, Some(&one));
        services.watch_instances();
        let moved = Proxy {
            dataplane: Arc::new(serde_json::from_value(json!({
                "networking": { "address": "10.0.0.2", "inbound": one.dataplane.networking.as_ref().unwrap().inbound },
            })).unwrap()),
            ..two
        };
        assert_eq!(services.replace(&name("one"), Some(&one), Some(&moved)), BTreeSet::from([name("a")]));
        let addresses = services.get("a").unwrap().addresses().map(|(_, (address, port))| (&**address, port));
        assert_eq!(addresses.collect::<Vec<_>>(), [("10.0.0.2", 1)]);
    }

    #[test]
    fn endpoints_of_a_subset_are_selected_by_tags() {
        let mut services = Services::default();
        let mut v2 = inbound(2, "a", "http");
        v2["tags"]["version"] = json!("2");
        services.replace(&name("one"), None, Some(&dataplane(&json!([inbound(1, "a", "http"), v2]))));
        let subset = Tags::from([("kuma.io/service".into(), "a".into()), ("version".into(), "2".into())]);
        let service = services.get("a").unwrap();
        assert_eq!(service.endpoints(&subset).iter().map(|endpoint| endpoint.port).collect::<Vec<_>>(), [2]);
        assert_eq!(service.endpoints(&Tags::new()).len(), 2);
    }

    #[test]
    fn hostnames_and_ignored_inbounds_are_no_endpoints() {
        let mut ignored = inbound(1, "a", "http");
        ignored["state"] = json!("Ignored");
        let inbounds = json!([ignored, inbound(2, "b", "http")]);
        let hostname = proxy(&json!({ "networking": { "address": "example.org", "inbound": inbounds } }));
        let mut services = Services::default();
        services.replace(&name("one"), None, Some(&hostname));
        assert!(services.get("a").is_none());
        assert!(services.get("b").unwrap().endpoints(&Tags::new()).is_empty());
    }
}
