//! Callers without mTLS that a change would refuse.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use kodiak_identity::{TlsPolicies, accepts};
use kodiak_model::{Cancellation, Cancelled, InboundTls};
use kodiak_rules::Shadow;
use kodiak_traffic::{ClientId, ObservedTraffic, PlaintextCaller};
use kodiak_world::World;
use serde::{Deserialize, Serialize};

/// Observed calls without mTLS from an address to an inbound that would refuse them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedCaller {
    pub address: IpAddr,
    /// Dataplanes with this address: an application that does not call through its proxy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dataplanes: Vec<String>,
    pub server: String,
    /// Port of the inbound.
    pub port: u16,
    pub requests: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
}

/// Callers of inbounds that accept plain text in `before`, and refuse it in `after`, when rollouts are complete.
pub fn refused_callers(
    before: &World,
    after: &World,
    mesh: &str,
    traffic: &ObservedTraffic,
    cancellation: &Cancellation,
) -> Result<Vec<RefusedCaller>, Cancelled> {
    if traffic.plaintext.is_empty() {
        return Ok(Vec::new());
    }
    let (accepted, refused) = (refusing(before, mesh, cancellation)?, refusing(after, mesh, cancellation)?);
    let is_refused = |caller: &&PlaintextCaller| {
        let inbound = (caller.server.clone(), caller.port);
        accepted.get(&inbound) == Some(&false) && refused.get(&inbound) == Some(&true)
    };
    let refused = traffic.plaintext.iter().filter(is_refused).map(|caller| RefusedCaller {
        address: caller.address,
        dataplanes: caller.dataplanes.clone(),
        server: caller.server.to_string(),
        port: caller.port,
        requests: caller.requests,
        first_seen: caller.first_seen,
        last_seen: caller.last_seen,
    });
    Ok(refused.collect())
}

/// Whether an inbound refuses plain text at any proxy of the server, by server and port.
fn refusing(
    world: &World,
    mesh: &str,
    cancellation: &Cancellation,
) -> Result<BTreeMap<(ClientId, u16), bool>, Cancelled> {
    let rollout = kodiak_identity::target(world, mesh).unwrap_or_default();
    let index = world.policy_index(TlsPolicies::kinds(), mesh);
    let policies = TlsPolicies { index: &index, shadow: Shadow::Ignored };
    let mut refusing = BTreeMap::new();
    for proxy in world.proxies(mesh) {
        cancellation.check()?;
        let Some(server) = ClientId::of(proxy) else { continue };
        for (position, inbound) in proxy.dataplane.inbounds().iter().enumerate() {
            let Ok(port) = u16::try_from(inbound.port) else { continue };
            let mode = policies.inbound(&proxy.name, position).mode;
            *refusing.entry((server.clone(), port)).or_default() |=
                accepts(&rollout, proxy, mode) == InboundTls::Strict;
        }
    }
    Ok(refusing)
}
