//! Check of permissions: who loses access, by which rule, and how often they called.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_model::{Cancellation, Cancelled};
use kodiak_reachability::{Purpose, Target, rollout};
use kodiak_traffic::{ObservedEdge, ObservedTraffic};
use kodiak_world::World;
use serde::{Deserialize, Serialize};

use super::{Calls, LostCall, LostCalls, LostReason, target_name};

/// Result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PermissionCheck {
    pub mesh: String,
    /// Whether permissions act on the calls of the mesh. Otherwise nothing is lost, whatever they say.
    pub enforced: bool,
    /// First and last time in which traffic was observed. Missing when none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Calls that were allowed before the change and are denied after it. Empty without a change.
    pub lost: Vec<LostCall>,
    /// Observed calls that are denied, the most frequent first.
    pub observed: Vec<DeniedTraffic>,
}

/// Observed calls of a service to a destination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeniedTraffic {
    pub client: String,
    /// Its Dataplanes that are denied; empty for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dataplanes: Vec<String>,
    pub destination: String,
    pub reason: LostReason,
    /// Whether the change denies it; otherwise it was denied before.
    pub lost: bool,
    pub requests: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

impl PermissionCheck {
    /// `before` is the mesh without the change; `None` when there is no change, so that every denied call counts.
    pub fn of(
        world: &World,
        before: Option<&Calls>,
        after: &Calls,
        traffic: &ObservedTraffic,
        cancellation: &Cancellation,
    ) -> Result<Self, Cancelled> {
        let lost = before.map(|before| LostCalls::between(before, after, cancellation)).transpose()?;
        let lost = lost.map(|lost| lost.calls).unwrap_or_default();
        let targets: BTreeMap<String, &Target> = after.destinations.iter().map(|one| (target_name(one), one)).collect();
        let mut observed: Vec<DeniedTraffic> = Vec::new();
        for edge in traffic.edges.iter().filter(|edge| edge.requests > 0) {
            cancellation.check()?;
            observed.extend(denied_traffic(before, after, &targets, edge));
        }
        observed.sort_by(|a, b| b.requests.cmp(&a.requests).then_with(|| a.client.cmp(&b.client)));
        let (since, until) = traffic.window.unzip();
        let enforced = Purpose::Calls.is_decided_by_permissions(&rollout(world, &after.mesh));
        Ok(Self { mesh: after.mesh.clone(), enforced, since, until, lost, observed })
    }

    /// Whether a service that was observed loses access to a destination that it called.
    pub fn loses_traffic(&self) -> bool {
        self.observed.iter().any(|denied| denied.lost)
    }
}

fn denied_traffic(
    before: Option<&Calls>,
    after: &Calls,
    targets: &BTreeMap<String, &Target>,
    edge: &ObservedEdge,
) -> Option<DeniedTraffic> {
    let target = *targets.get(&edge.destination)?;
    let members = after.clients.of_group(edge.client.as_str())?;
    let reason = |name: &Arc<str>| LostReason::of(after.graph.may(name, target));
    let denied: Vec<&Arc<str>> =
        members.iter().map(|index| after.clients.name(index)).filter(|name| reason(name).is_some()).collect();
    let first = *denied.first()?;
    let was_allowed = |name: &Arc<str>| before.is_none_or(|before| before.graph.may(name, target).is_yes());
    let dataplanes: Vec<String> = denied.iter().map(ToString::to_string).collect();
    Some(DeniedTraffic {
        client: edge.client.to_string(),
        lost: denied.iter().any(|name| was_allowed(name)),
        dataplanes: if denied.len() as u64 == members.len() { Vec::new() } else { dataplanes },
        destination: edge.destination.clone(),
        reason: reason(first)?,
        requests: edge.requests,
        first_seen: edge.first_seen,
        last_seen: edge.last_seen,
    })
}
