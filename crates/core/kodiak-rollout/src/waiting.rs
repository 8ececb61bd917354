//! Proxies that a rollout step waits for, and the reasons.

use std::{fmt, sync::Arc};

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
            Self::NotConnected => f.write_str("is not connected"),
            Self::NoIdentity => f.write_str("no MeshIdentity gives it a certificate"),
        }
    }
}
