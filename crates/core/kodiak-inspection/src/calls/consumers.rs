//! Reachability of each consumer: its mode, and the destinations that it loses or would lose.

use std::{collections::BTreeSet, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{Cancellation, Cancelled};
use kodiak_reachability::{Mode, ModeSource, Target};
use kodiak_rules::Proxy;
use kodiak_services::reachable;
use kodiak_traffic::ObservedEdge;
use kodiak_world::{Destination, World};
use serde::{Deserialize, Serialize};

use super::{Calls, Exempt, Names, Trimming, group, target_name};

/// A Dataplane as a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumer {
    pub dataplane: String,
    /// Group of clients that it is in, as observed traffic names it.
    pub service: String,
    /// `off`, `shadow` or `on`.
    pub mode: String,
    pub source: ModeOrigin,
    /// Why it keeps all destinations, whatever its mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exempt: Option<Exempt>,
    /// Number of destinations that it has without trimming.
    pub configured: usize,
    /// Number of those that it may call.
    pub callable: usize,
    /// Number of those that are trimmed, or would be in mode `on`.
    pub trimmed: usize,
    /// Of the configured destinations.
    pub trimmed_destinations: Names,
    /// Trimmed destinations that the service has called.
    pub used: Vec<UsedDestination>,
}

/// Origin of a mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ModeOrigin {
    Setting,
    Mesh,
    Dataplane,
}

/// Traffic that trimming would have cut off.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsedDestination {
    pub destination: String,
    pub requests: u64,
    pub last_seen: Timestamp,
}

/// Facts of a mesh that all its consumers need.
pub struct Consumers<'a> {
    world: &'a World,
    calls: &'a Calls,
    trimming: Trimming<'a>,
    destinations: Vec<Arc<Destination>>,
    traffic: &'a [ObservedEdge],
}

impl<'a> Consumers<'a> {
    /// `setting` is that of the control plane.
    pub fn of(
        world: &'a World,
        calls: &'a Calls,
        setting: Mode,
        traffic: &'a [ObservedEdge],
        cancellation: &Cancellation,
    ) -> Result<Self, Cancelled> {
        Ok(Self {
            world,
            calls,
            trimming: Trimming::of(world, &calls.mesh, setting, cancellation)?,
            destinations: world.destinations(&calls.mesh).cloned().collect(),
            traffic,
        })
    }

    pub fn consumer(&self, proxy: &Proxy) -> Consumer {
        let (mode, source) = self.trimming.mode(proxy);
        let exempt = self.trimming.exempt(proxy);
        let client = self.trimming.client(proxy);
        let configured = self.configured(proxy);
        let callable = configured.iter().filter(|target| client.may_call(target)).count();
        let trimmed = configured.iter().filter(|target| exempt.is_none() && client.trims(target));
        let trimmed: BTreeSet<String> = trimmed.map(target_name).collect();
        let all: BTreeSet<String> = configured.iter().map(target_name).collect();
        let service = group(proxy);
        let used = self.traffic.iter().filter(|edge| edge.client.as_str() == service);
        let used = used.filter(|edge| edge.requests > 0 && trimmed.contains(&edge.destination));
        let used = used.map(|edge| UsedDestination {
            destination: edge.destination.clone(),
            requests: edge.requests,
            last_seen: edge.last_seen,
        });
        Consumer {
            dataplane: proxy.name.to_string(),
            mode: mode.to_string(),
            source: match source {
                ModeSource::Settings => ModeOrigin::Setting,
                ModeSource::Mesh => ModeOrigin::Mesh,
                ModeSource::Dataplane => ModeOrigin::Dataplane,
            },
            exempt,
            configured: configured.len(),
            callable,
            trimmed: trimmed.len(),
            trimmed_destinations: Names::of(
                &trimmed.iter().map(String::as_str).collect(),
                all.iter().map(String::as_str),
            ),
            used: used.collect(),
            service,
        }
    }

    /// Destinations that the proxy has outbounds for, without trimming.
    fn configured(&self, proxy: &Proxy) -> BTreeSet<Target> {
        let mode = self.world.mesh_services_mode(&self.calls.mesh);
        let redirected = self.world.redirects_outbound(proxy);
        let redirected = redirected.unwrap_or_else(|| proxy.dataplane.usable_outbounds().next().is_none());
        let names = self.calls.destinations.iter().filter_map(Target::service).map(|name| &**name);
        let outbounds = reachable::outbounds(mode, proxy, redirected, names, &self.destinations);
        let services = outbounds.services.iter().filter_map(|tags| tags.get(kodiak_model::tags::SERVICE));
        let services = services.map(|service| Target::Service(service.as_str().into()));
        let objects = outbounds.ports.iter().map(|(one, _)| Target::Object(Arc::new(one.kri.clone())));
        services.chain(objects).collect()
    }
}
