//! Proxies that a rollout step waits for, and the reasons.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

/// Proxy that blocks the next step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    pub proxy: Arc<str>,
    pub reason: WaitReason,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// Connected, but has not acknowledged yet.
    NotAcknowledged,
    /// NACK of a resource that the step may have changed: type, and Envoy's error.
    Rejected(String),
    /// Its connection ended a moment ago: it is running, and about to connect again.
    Disconnected { until: Timestamp },
    /// Offline for longer, and it may come back with a certificate or SPIFFE IDs that the next step removes.
    OldTrust { until: Timestamp },
    /// Connected, and its certificate is of this issuer still: the step could not issue another.
    OldCertificate(String),
    /// Offline, and a server without a sidecar may run in its place.
    NotConnected,
    /// No MeshIdentity gives it a certificate, so it would be refused.
    NoIdentity,
}

impl Waiting {
    pub fn is_rejected(&self) -> bool {
        matches!(self.reason, WaitReason::Rejected(_))
    }
}

impl WaitReason {
    /// Time after which it does not hold up the next step any more. `None`: it does until it acknowledges.
    pub fn until(&self) -> Option<Timestamp> {
        match self {
            Self::Disconnected { until } | Self::OldTrust { until } => Some(*until),
            Self::NotAcknowledged
            | Self::Rejected(_)
            | Self::OldCertificate(_)
            | Self::NotConnected
            | Self::NoIdentity => None,
        }
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { proxy, reason } = self;
        write!(f, "{proxy} ({reason})")
    }
}

impl fmt::Display for WaitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAcknowledged => f.write_str("has not acknowledged"),
            Self::Rejected(error) => write!(f, "rejected {error}"),
            Self::Disconnected { until } => write!(f, "lost its connection, and is waited for until {until}"),
            Self::OldTrust { until } => write!(
                f,
                "is not connected, and its old certificate may be in use: old trust is kept until {until}, or until its Dataplane is deleted"
            ),
            Self::OldCertificate(issuer) => write!(f, "has no certificate of the step yet, only one of {issuer}"),
            Self::NotConnected => f.write_str("is not connected"),
            Self::NoIdentity => f.write_str("no MeshIdentity gives it a certificate"),
        }
    }
}
