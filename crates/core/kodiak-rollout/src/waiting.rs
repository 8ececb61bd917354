//! Whom a step waits for, and why.

use std::{fmt, sync::Arc};

/// A proxy that holds up the next step.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiting {
    pub proxy: Arc<str>,
    pub reason: WaitReason,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum WaitReason {
    /// It answers nothing, or not yet.
    NotAcknowledged,
    /// It rejected what the step may be about: the type, and Envoy's error.
    Rejected(String),
    /// Callers would use mTLS for good, and something without may answer in its place.
    NotConnected,
}

impl Waiting {
    pub fn is_rejected(&self) -> bool {
        matches!(self.reason, WaitReason::Rejected(_))
    }
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let proxy = &self.proxy;
        match &self.reason {
            WaitReason::NotAcknowledged => write!(f, "{proxy} (has not acknowledged)"),
            WaitReason::Rejected(error) => write!(f, "{proxy} (rejected {error})"),
            WaitReason::NotConnected => write!(f, "{proxy} (is not connected)"),
        }
    }
}
