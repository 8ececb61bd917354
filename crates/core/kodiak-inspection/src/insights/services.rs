//! ServiceInsight: one entry for each service of a mesh.

use std::collections::BTreeMap;

use kodiak_model::{
    kinds::{
        dataplane::ProxyState,
        service_insight::{Service, ServiceDataplanes, ServiceStatus, ServiceType},
    },
    tags,
};

use super::{ObservedProxy, ProxySort};

/// Services by the values of `kuma.io/service`. `exclusive`: MeshServices have taken over, only delegated gateways
/// are still known by their tag.
pub fn services(proxies: &[ObservedProxy], exclusive: bool) -> BTreeMap<String, Service> {
    let mut services: BTreeMap<String, Service> = BTreeMap::new();
    for proxy in proxies {
        let sort = proxy.sort();
        if exclusive && sort != ProxySort::GatewayDelegated {
            continue;
        }
        let state = proxy.state();
        for name in proxy.services() {
            let service = services.entry(name.to_owned()).or_insert_with(|| new_service(name, sort));
            let counts = service.dataplanes.get_or_insert_default();
            counts.total += 1;
            match state {
                ProxyState::Online | ProxyState::PartiallyDegraded => counts.online += 1,
                ProxyState::Offline => counts.offline += 1,
            }
            if let Some(backend) = proxy.issued_backend() {
                *service.issued_backends.entry(backend.to_owned()).or_default() += 1;
            }
            add_zones(proxy, name, service);
        }
    }
    for service in services.values_mut() {
        service.status = Some(status(service.dataplanes.unwrap_or_default()).into());
    }
    services
}

fn new_service(name: &str, sort: ProxySort) -> Service {
    let service_type = match sort {
        ProxySort::Standard => ServiceType::Internal,
        ProxySort::GatewayBuiltin => ServiceType::GatewayBuiltin,
        ProxySort::GatewayDelegated => ServiceType::GatewayDelegated,
    };
    let internal = service_type == ServiceType::Internal;
    Service {
        service_type: (!internal).then(|| service_type.into()),
        address_port: if internal { format!("{name}.mesh:80") } else { String::new() },
        dataplanes: Some(ServiceDataplanes::default()),
        ..Service::default()
    }
}

fn add_zones(proxy: &ObservedProxy, name: &str, service: &mut Service) {
    let of_service = |tags: &&BTreeMap<String, String>| tags.get(tags::SERVICE).is_some_and(|service| service == name);
    for zone in proxy.dataplane.tag_sets().filter(of_service).filter_map(|tags| tags.get(tags::ZONE)) {
        if let Err(at) = service.zones.binary_search(zone) {
            service.zones.insert(at, zone.clone());
        }
    }
}

fn status(counts: ServiceDataplanes) -> ServiceStatus {
    match (counts.online, counts.total) {
        (0, _) => ServiceStatus::Offline,
        (online, total) if online == total => ServiceStatus::Online,
        _ => ServiceStatus::PartiallyDegraded,
    }
}
