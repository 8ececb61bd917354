//! Proxy counts, state and identities of a MeshService, from its Dataplanes.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use kodiak_identity::{Acceptance, acceptance};
use kodiak_model::{
    Choice, Condition,
    kinds::{
        dataplane::{Dataplane, Inbound, InboundState},
        mesh_service::{DataplaneProxies, Identity, IdentityType, MeshService, State, TlsReadiness, TlsStatus},
    },
};
use kodiak_rollout::Rollout;
use kodiak_rules::Proxy;

use super::{facts::Seen, uncertified::Uncertified, unvouched::Unvouched};

/// Dataplane of a MeshService, and the observed state of its proxy.
pub(super) type Member<'a> = (&'a Proxy, Seen);

/// Time of the count.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    pub(super) grace: SignedDuration,
    /// Proxies may still be reconnecting after an outage of the control plane, so the last count is kept.
    pub(super) settling: bool,
}

/// Counts of the proxies of a MeshService.
#[derive(Debug, Default)]
pub(super) struct Census {
    connected: u32,
    healthy: u32,
    total: u32,
    /// Ready, connected or not.
    ready: u32,
    certified: u32,
    /// Members that calls may be sent to.
    endpoints: u32,
    service_tags: BTreeSet<String>,
    spiffe_ids: BTreeSet<String>,
    unvouched: Unvouched,
    uncertified: Uncertified,
}

impl Census {
    pub(super) fn take<'a>(
        spec: &MeshService,
        members: impl Iterator<Item = Member<'a>>,
        rollout: &Rollout,
        moment: Moment,
    ) -> Self {
        let mut census = Self::default();
        for (proxy, seen) in members {
            let Acceptance { is_endpoint, service_tags, spiffe_ids, unvouched } =
                acceptance(rollout, &spec.selector, proxy);
            // A member that could only be called in plain text on a strict mesh is no endpoint either.
            let closed = is_endpoint && census.uncertified.note(rollout, proxy);
            let ready = is_endpoint && !closed && is_ready(spec, &proxy.dataplane);
            let connected = seen.is_connected(moment.grace, moment.now);
            census.total += 1;
            census.endpoints += u32::from(is_endpoint);
            census.connected += u32::from(connected);
            census.ready += u32::from(ready);
            census.healthy += u32::from(connected && ready);
            census.certified += u32::from(seen.certified);
            if is_endpoint {
                census.service_tags.extend(service_tags);
                census.spiffe_ids.extend(spiffe_ids);
            }
            census.unvouched.note(proxy, is_endpoint, &unvouched);
        }
        census
    }

    /// Sets the conditions about members that are no endpoints: their token does not bind the selected fields, or they have
    /// no certificate.
    pub(super) fn report(&self, conditions: &mut Vec<Condition>) {
        self.unvouched.report(conditions);
        self.uncertified.report(conditions);
    }

    pub(super) fn proxies(&self, last: &DataplaneProxies, moment: Moment) -> DataplaneProxies {
        let &Self { mut connected, mut healthy, total, ready, .. } = self;
        if moment.settling {
            connected = connected.max(last.connected.min(total));
            healthy = healthy.max(last.healthy.min(connected).min(ready));
        }
        DataplaneProxies { connected, healthy, total }
    }

    pub(super) fn state(proxies: &DataplaneProxies) -> Choice<State> {
        if proxies.healthy > 0 { State::Available.into() } else { State::Unavailable.into() }
    }

    /// Identities of the proxies: by their tags, then by MeshIdentities. Without proxies the stored ones are kept.
    pub(super) fn identities(&self, stored: Option<&Vec<Identity>>) -> Option<Vec<Identity>> {
        if self.endpoints == 0 {
            return stored.cloned();
        }
        let identity = |kind: IdentityType| {
            move |value: &String| Identity { identity_type: Some(kind.into()), value: value.clone() }
        };
        let tags = self.service_tags.iter().map(identity(IdentityType::ServiceTag));
        let all: Vec<Identity> = tags.chain(self.spiffe_ids.iter().map(identity(IdentityType::SpiffeId))).collect();
        if all.is_empty() { stored.filter(|stored| stored.is_empty()).cloned() } else { Some(all) }
    }

    /// Ready when every proxy has a certificate; stays ready as long as the mesh has mTLS.
    pub(super) fn tls(&self, stored: &TlsStatus, mtls: bool) -> TlsStatus {
        let was = stored.status.as_ref().is_some_and(|status| status.is(TlsReadiness::Ready));
        let all = self.total > 0 && self.certified == self.total;
        let readiness = if mtls && (was || all) { TlsReadiness::Ready } else { TlsReadiness::NotReady };
        TlsStatus { status: Some(readiness.into()) }
    }
}

/// Whether a port targets an inbound, and all selected inbounds are ready: those that ports target, and those with the
/// tags of the selector.
fn is_ready(spec: &MeshService, dataplane: &Dataplane) -> bool {
    let mut reached = false;
    for inbound in dataplane.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored) {
        let by_port = spec.ports.iter().any(|port| port.is_served_by(inbound));
        if (by_port || has_tags(spec, inbound)) && !inbound.is_ready() {
            return false;
        }
        reached |= by_port;
    }
    reached
}

fn has_tags(spec: &MeshService, inbound: &Inbound) -> bool {
    let wanted = spec.selector.dataplane_tags.as_ref();
    wanted.is_some_and(|tags| tags.iter().all(|(key, value)| inbound.tags.get(key) == Some(value)))
}
