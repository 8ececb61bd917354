//! Counts over all meshes.

use std::collections::BTreeMap;

use kodiak_model::kinds::{
    mesh_insight::DataplaneStat,
    service_insight::{Service, ServiceStatus, ServiceType},
};

use super::{ObservedProxy, ProxySort, count};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalProxies {
    pub standard: DataplaneStat,
    pub gateway_builtin: DataplaneStat,
    pub gateway_delegated: DataplaneStat,
}

/// Services by status. External ones have only a total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GlobalServices {
    pub internal: DataplaneStat,
    pub gateway_builtin: DataplaneStat,
    pub gateway_delegated: DataplaneStat,
    pub external: u32,
}

pub fn global_proxies<'a>(proxies: impl IntoIterator<Item = &'a ObservedProxy>) -> GlobalProxies {
    let mut all = GlobalProxies::default();
    for proxy in proxies {
        let stat = match proxy.sort() {
            ProxySort::Standard => &mut all.standard,
            ProxySort::GatewayBuiltin => &mut all.gateway_builtin,
            ProxySort::GatewayDelegated => &mut all.gateway_delegated,
        };
        count(stat, proxy.state());
    }
    all
}

/// Adds the services of a mesh to `all`.
pub fn global_services(all: &mut GlobalServices, services: &BTreeMap<String, Service>) {
    for service in services.values() {
        let stat = match service.service_type() {
            ServiceType::Internal => &mut all.internal,
            ServiceType::GatewayBuiltin => &mut all.gateway_builtin,
            ServiceType::GatewayDelegated => &mut all.gateway_delegated,
            ServiceType::External => {
                all.external += 1;
                continue;
            }
        };
        stat.total += 1;
        match service.status.as_ref().and_then(kodiak_model::Choice::known) {
            Some(ServiceStatus::Online) => stat.online += 1,
            Some(ServiceStatus::PartiallyDegraded) => stat.partially_degraded += 1,
            Some(ServiceStatus::Offline | ServiceStatus::Unset | ServiceStatus::NotAvailable) | None => {
                stat.offline += 1;
            }
        }
    }
}
