//! MeshInsight of a mesh.

use std::collections::BTreeMap;

use kodiak_model::kinds::{
    dataplane::ProxyState,
    mesh_insight::{DataplaneStat, DataplanesByType, DpVersions, MeshInsight, MtlsStat, ResourceStat, ServiceStat},
    service_insight::{Service, ServiceType},
};

use super::{ObservedProxy, ProxySort, count};

/// Facts of a mesh beside its proxies.
pub struct MeshFacts<'a> {
    /// Resources of the mesh by kind, policies marked.
    pub resources: &'a [(&'a str, u32, bool)],
    pub services: &'a BTreeMap<String, Service>,
    /// MeshServices have taken over: services are not counted by tags.
    pub exclusive: bool,
}

pub fn mesh_insight(proxies: &[ObservedProxy], facts: &MeshFacts<'_>) -> MeshInsight {
    let mut all = DataplaneStat::default();
    let mut by_type = DataplanesByType::default();
    let mut versions = DpVersions::default();
    let mut mtls = MtlsStat::default();
    for proxy in proxies {
        let state = proxy.state();
        count(&mut all, state);
        count_sort(&mut by_type, proxy.sort(), state);
        count_versions(&mut versions, proxy, state);
        count_backends(&mut mtls, proxy, state);
    }
    let stats = |policies_only: bool| {
        let rows = facts.resources.iter().filter(move |(_, _, policy)| *policy || !policies_only);
        rows.map(|(kind, total, _)| ((*kind).to_owned(), ResourceStat { total: *total })).collect()
    };
    MeshInsight {
        dataplanes: Some(all),
        policies: stats(true),
        dp_versions: Some(versions),
        mtls: Some(mtls),
        services: (!facts.exclusive).then(|| service_stat(facts.services)),
        dataplanes_by_type: Some(by_type),
        resources: stats(false),
    }
}

fn count_sort(by_type: &mut DataplanesByType, sort: ProxySort, state: ProxyState) {
    let DataplanesByType { standard, gateway, gateway_builtin, gateway_delegated } = by_type;
    match sort {
        ProxySort::Standard => count(standard.get_or_insert_default(), state),
        ProxySort::GatewayBuiltin => {
            count(gateway.get_or_insert_default(), state);
            count(gateway_builtin.get_or_insert_default(), state);
        }
        ProxySort::GatewayDelegated => {
            count(gateway.get_or_insert_default(), state);
            count(gateway_delegated.get_or_insert_default(), state);
        }
    }
}

fn count_versions(versions: &mut DpVersions, proxy: &ObservedProxy, state: ProxyState) {
    let version = proxy.insight.as_ref().and_then(|insight| insight.last_subscription()?.version.as_ref());
    let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).unwrap_or("unknown").to_owned();
    let kuma_dp = version.and_then(|version| version.kuma_dp.as_ref()).map(|kuma_dp| kuma_dp.version.as_str());
    let envoy = version.and_then(|version| version.envoy.as_ref()).map(|envoy| envoy.version.as_str());
    count(versions.kuma_dp.entry(named(kuma_dp)).or_default(), state);
    count(versions.envoy.entry(named(envoy)).or_default(), state);
}

fn count_backends(stat: &mut MtlsStat, proxy: &ObservedProxy, state: ProxyState) {
    let Some(mtls) = proxy.insight.as_ref().and_then(|insight| insight.mtls.as_ref()) else { return };
    if let Some(issued) = proxy.issued_backend() {
        count(stat.issued_backends.entry(issued.to_owned()).or_default(), state);
    }
    for supported in &mtls.supported_backends {
        count(stat.supported_backends.entry(supported.clone()).or_default(), state);
    }
}

fn service_stat(services: &BTreeMap<String, Service>) -> ServiceStat {
    let mut stat = ServiceStat::default();
    for service in services.values() {
        stat.total += 1;
        match service.service_type() {
            ServiceType::External => stat.external += 1,
            ServiceType::Internal | ServiceType::GatewayBuiltin | ServiceType::GatewayDelegated => stat.internal += 1,
        }
    }
    stat
}
