//! Proxies as their insights show them, and for how long one that is not connected counts.

use jiff::{SignedDuration, Timestamp};
use kodiak_model::kinds::dataplane_insight::{DataplaneInsight, MtlsInsight};
use kodiak_rollout::{Issuers, WaitReason};

/// For how long the steps of rollouts wait for proxies that are not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbsenceLimits {
    /// A proxy that lost its connection holds up every step for this time.
    pub connection_grace: SignedDuration,
    /// Longest time for which CAs and SPIFFE IDs that are not in use any more stay trusted, because a proxy that is not
    /// connected may come back with an old certificate.
    pub old_trust: SignedDuration,
    /// Start of the control plane: no proxy could connect to it before.
    pub since: Timestamp,
}

impl Default for AbsenceLimits {
    fn default() -> Self {
        Self {
            connection_grace: SignedDuration::from_secs(30),
            old_trust: SignedDuration::from_hours(24),
            since: Timestamp::MIN,
        }
    }
}

/// Time at which a rollout is looked at, with the limits for proxies that are not connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub now: Timestamp,
    pub limits: AbsenceLimits,
}

/// Time at which a proxy lost its last connection. `None` while it is connected, and if it never was.
pub fn disconnected(insight: &DataplaneInsight) -> Option<Timestamp> {
    let ends = insight.subscriptions.iter().filter_map(|known| known.disconnect_time.as_deref()?.parse().ok());
    if insight.is_online() { None } else { ends.max() }
}

/// Proxy that is, or was, connected.
#[derive(Debug, Clone, Default)]
pub(crate) struct ObservedProxy {
    pub(crate) online: bool,
    /// Whether it was ever connected. Otherwise it runs no step.
    has_connected: bool,
    left: Option<Timestamp>,
    /// Token of the step that it acknowledged last.
    pub(crate) acknowledged: String,
    /// Envoy's error, while it is connected and rejects the current step.
    rejecting: String,
    /// Backend, or KRI of the MeshIdentity, of its last certificate. Empty without one.
    pub(crate) issuer: String,
    /// When that expires, if known.
    expires: Option<Timestamp>,
}

impl ObservedProxy {
    pub(crate) fn of(insight: &DataplaneInsight) -> Self {
        let online = insight.is_online();
        let MtlsInsight { acknowledged, rejecting, issued_backend, certificate_expiration_time, .. } =
            insight.mtls.clone().unwrap_or_default();
        Self {
            online,
            has_connected: !insight.subscriptions.is_empty(),
            left: disconnected(insight),
            acknowledged,
            rejecting: if online { rejecting } else { String::new() },
            issuer: issued_backend,
            expires: certificate_expiration_time.and_then(|time| time.parse().ok()),
        }
    }

    pub(crate) fn is_rejecting(&self) -> bool {
        !self.rejecting.is_empty()
    }

    /// Why it holds up every step that follows one which it has not acknowledged. `taken`: time of that step if no proxy of
    /// the mesh is connected. Then nobody can acknowledge, so each step lasts for a grace period.
    pub(crate) fn holds_up(&self, moment: &Moment, taken: Option<Timestamp>) -> Option<WaitReason> {
        if self.online {
            return Some(match &*self.rejecting {
                "" => WaitReason::NotAcknowledged,
                error => WaitReason::Rejected(error.to_owned()),
            });
        }
        if !self.has_connected {
            return None;
        }
        let AbsenceLimits { connection_grace, since, .. } = moment.limits;
        let start = [self.left, taken].into_iter().flatten().fold(since, Timestamp::max);
        let until = later(start, connection_grace);
        (moment.now < until).then_some(WaitReason::Disconnected { until })
    }

    /// Why it holds up a step that removes trust in its certificate: it is connected, and none of these issued it.
    pub(crate) fn old_certificate(&self, issuers: &Issuers) -> Option<WaitReason> {
        let is_old = self.online && !self.issuer.is_empty() && !issuers.has(&self.issuer);
        is_old.then(|| WaitReason::OldCertificate(self.issuer.clone()))
    }

    /// Why it holds up a step that removes trust in its certificate, or SPIFFE IDs that it may have: it is not connected.
    pub(crate) fn old_trust(&self, moment: &Moment) -> Option<WaitReason> {
        if self.online || self.issuer.is_empty() {
            return None;
        }
        let AbsenceLimits { old_trust, since, .. } = moment.limits;
        let bound = later(self.left.unwrap_or(since), old_trust);
        let until = self.expires.map_or(bound, |expires| expires.min(bound));
        (moment.now < until).then_some(WaitReason::OldTrust { until })
    }
}

fn later(start: Timestamp, after: SignedDuration) -> Timestamp {
    start.checked_add(after).unwrap_or(Timestamp::MAX)
}
