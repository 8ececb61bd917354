//! Health checks of Envoy itself and of applications through HDS, and the inbound readiness that follows from their results.
//!
//! Every Envoy with inbounds checks its own `/ready`: one that drains says so there, also when its runner does not notify
//! the control plane. Inbounds with a `serviceProbe` follow the check of their application. In Kuma one unhealthy service
//! makes all inbounds of its proxy not ready, also those without a probe.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::config::core::v3::health_check::{HealthChecker, HttpHealthCheck, TcpHealthCheck};
use kodiak_envoy::envoy::config::core::v3::{Address, BindConfig, HealthCheck, HealthStatus};
use kodiak_envoy::envoy::config::endpoint::v3::Endpoint;
use kodiak_envoy::envoy::service::health::v3::{
    ClusterHealthCheck, EndpointHealth, EndpointHealthResponse, HealthCheckSpecifier, LocalityEndpoints,
};
use kodiak_model::ProtoDuration;
use kodiak_model::kinds::dataplane::{Dataplane, Inbound, InboundState, ServiceProbe};

use crate::admin::READY;
use crate::node::NodeMetadata;
use crate::{address, admin, inbound, names};

/// Envoy's resolution is a millisecond.
const SHORTEST: Duration = Duration::from_millis(1);
/// Report interval when nothing is probed.
const SELDOM: Duration = Duration::from_hours(24);

/// Default intervals of checks and reports, where a `serviceProbe` has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Between two reports.
    pub report: Duration,
    pub timeout: Duration,
    /// Between two checks.
    pub interval: Duration,
    /// Between two checks of a cluster that had no connections other than checks.
    pub no_traffic_interval: Duration,
    pub healthy_threshold: u32,
    pub unhealthy_threshold: u32,
}

impl Default for Timing {
    /// Kuma's defaults, except for reports.
    fn default() -> Self {
        Self {
            // Kuma: 5 s. A proxy that drains is an endpoint until its next report.
            report: Duration::from_secs(2),
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(1),
            no_traffic_interval: Duration::from_secs(1),
            healthy_threshold: 1,
            unhealthy_threshold: 1,
        }
    }
}

/// Whether probes determine the readiness of this inbound.
pub fn is_probed(inbound: &Inbound) -> bool {
    inbound.service_probe.is_some() && inbound.state() != InboundState::Ignored
}

/// Health checks for this proxy; `None` when it has no inbounds, or nothing that can be checked.
pub fn specifier(dataplane: &Dataplane, node: &NodeMetadata, timing: &Timing) -> Option<HealthCheckSpecifier> {
    if !dataplane.inbounds().iter().any(Inbound::is_served) {
        return None;
    }
    let probed = probed(dataplane);
    let networking = dataplane.networking.as_ref();
    let redirecting = networking.and_then(|networking| networking.transparent_proxying.as_ref());
    let transparent = node.shape(redirecting).transparent;
    let itself = node.admin_endpoint().map(|endpoint| ClusterHealthCheck {
        health_checks: vec![of_envoy(timing)],
        ..at(names::ADMIN.to_owned(), admin::endpoint(&endpoint))
    });
    let workloads = probed.into_iter().filter_map(|Probed { inbound, workload, .. }| {
        let Workload { cluster, address } = workload?;
        Some(ClusterHealthCheck {
            health_checks: vec![of_workload(inbound.service_probe.as_ref(), timing)],
            upstream_bind_config: source(address, transparent),
            ..at(cluster, address::tcp(&address.to_string(), inbound.service_port()))
        })
    });
    let cluster_health_checks: Vec<_> = itself.into_iter().chain(workloads).collect();
    let interval = Some(duration(timing.report.max(SHORTEST)));
    (!cluster_health_checks.is_empty()).then_some(HealthCheckSpecifier { cluster_health_checks, interval })
}

/// For a proxy that has checks which it should stop.
pub fn nothing() -> HealthCheckSpecifier {
    HealthCheckSpecifier { cluster_health_checks: Vec::new(), interval: Some(duration(SELDOM)) }
}

/// Health report of an Envoy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Whether Envoy passes its own `/ready`. `None` without an answer in time: a busy Envoy still serves.
    pub is_live: Option<bool>,
    /// Whether each checked application is healthy.
    clusters: BTreeMap<String, bool>,
}

impl Findings {
    pub fn read(report: EndpointHealthResponse) -> Self {
        let mut findings = Self::default();
        for found in report.cluster_endpoints_health {
            let statuses = || {
                let endpoints = found.locality_endpoints_health.iter().flat_map(|locality| &locality.endpoints_health);
                endpoints.map(EndpointHealth::health_status)
            };
            if found.cluster_name == names::ADMIN {
                findings.is_live = statuses().next().and_then(liveness);
            } else if let Some(is_fine) = statuses().map(is_fine).reduce(|all, next| all && next) {
                findings.clusters.insert(found.cluster_name, is_fine);
            }
        }
        findings
    }

    /// Sets the readiness of probed inbounds, and returns whether any changed. An inbound without a result keeps its
    /// state: the report may be about an earlier Dataplane. Inbounds become ready only when `may_serve` is set.
    pub fn apply(&self, dataplane: &mut Dataplane, may_serve: bool) -> bool {
        let ready = |probed: &Probed<'_>| match &probed.workload {
            Some(workload) => self.clusters.get(&workload.cluster).copied(),
            None => Some(true),
        };
        let changes = |probed: &Probed<'_>| {
            let ready = ready(probed).filter(|ready| *ready != probed.inbound.is_ready() && (may_serve || !ready))?;
            Some((probed.index, ready))
        };
        let changes: Vec<_> = probed(dataplane).iter().filter_map(changes).collect();
        let Some(networking) = &mut dataplane.networking else { return false };
        for (index, ready) in &changes {
            networking.inbound[*index].set_ready(*ready);
        }
        !changes.is_empty()
    }
}

/// An inbound whose readiness follows its check.
struct Probed<'a> {
    index: usize,
    inbound: &'a Inbound,
    /// `None` when the service address is a hostname, which Envoy does not accept for a health check: then only Envoy
    /// itself is checked.
    workload: Option<Workload>,
}

struct Workload {
    cluster: String,
    address: IpAddr,
}

fn probed(dataplane: &Dataplane) -> Vec<Probed<'_>> {
    let own = dataplane.networking.as_ref().map_or("", |networking| &networking.address);
    let mut taken = BTreeSet::new();
    let inbounds = dataplane.inbounds().iter().enumerate().filter(|(_, inbound)| is_probed(inbound));
    let probed = inbounds.map(|(index, inbound)| {
        let port = inbound.service_port();
        let workload = inbound.service_address_or(own).parse().ok().map(|address| Workload {
            cluster: if taken.insert(port) { names::local_cluster(port) } else { names::fallback_check(port, index) },
            address,
        });
        Probed { index, inbound, workload }
    });
    probed.collect()
}

fn at(cluster: String, address: Address) -> ClusterHealthCheck {
    ClusterHealthCheck {
        cluster_name: cluster,
        locality_endpoints: vec![LocalityEndpoints {
            endpoints: vec![Endpoint { address: Some(address), ..Endpoint::default() }],
            ..LocalityEndpoints::default()
        }],
        ..ClusterHealthCheck::default()
    }
}

fn of_envoy(timing: &Timing) -> HealthCheck {
    let ready = HttpHealthCheck { path: READY.to_owned(), ..HttpHealthCheck::default() };
    HealthCheck { health_checker: Some(HealthChecker::HttpHealthCheck(ready)), ..of_workload(None, timing) }
}

fn of_workload(probe: Option<&ServiceProbe>, timing: &Timing) -> HealthCheck {
    let interval = probe.and_then(|probe| probe.interval).map(written);
    let timeout = probe.and_then(|probe| probe.timeout).map(written);
    let time = |written: Option<Duration>, default: Duration| Some(duration(written.unwrap_or(default).max(SHORTEST)));
    let healthy = probe.and_then(|probe| probe.healthy_threshold);
    let unhealthy = probe.and_then(|probe| probe.unhealthy_threshold);
    HealthCheck {
        timeout: time(timeout, timing.timeout),
        interval: time(interval, timing.interval),
        // Only checks ever connect to these clusters, so without this the configured interval would have no effect.
        no_traffic_interval: time(interval, timing.no_traffic_interval),
        healthy_threshold: Some(healthy.unwrap_or(timing.healthy_threshold).max(1)),
        unhealthy_threshold: Some(unhealthy.unwrap_or(timing.unhealthy_threshold).max(1)),
        health_checker: Some(HealthChecker::TcpHealthCheck(TcpHealthCheck::default())),
        ..HealthCheck::default()
    }
}

fn written(duration: ProtoDuration) -> Duration {
    Duration::from_nanos(u64::try_from(duration.nanos()).unwrap_or_default())
}

/// Same source address as in the cluster of the application.
fn source(workload: IpAddr, transparent: bool) -> Option<BindConfig> {
    (transparent && !workload.is_loopback()).then(|| inbound::redirect_free_source(workload.is_ipv6()))
}

fn liveness(status: HealthStatus) -> Option<bool> {
    match status {
        HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded => Some(true),
        HealthStatus::Unhealthy | HealthStatus::Draining => Some(false),
        HealthStatus::Timeout => None,
    }
}

fn is_fine(status: HealthStatus) -> bool {
    match status {
        // A degraded endpoint still responds.
        HealthStatus::Unknown | HealthStatus::Healthy | HealthStatus::Degraded => true,
        HealthStatus::Unhealthy | HealthStatus::Draining | HealthStatus::Timeout => false,
    }
}
