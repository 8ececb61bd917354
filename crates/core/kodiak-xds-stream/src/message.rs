//! Responses and their nonces.

use std::fmt;
use std::sync::Arc;

use crate::resource::{Encoded, Version};
use crate::type_url::Requested;

/// Identifies a response on its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub(crate) u64);

impl Nonce {
    /// Never sent: stands for any nonce that this server did not issue.
    const FOREIGN: Self = Self(0);

    /// `None` when the request is not an answer.
    pub fn from_wire(text: &str) -> Option<Self> {
        let parsed = || u64::from_str_radix(text, 16).map_or(Self::FOREIGN, Self);
        (!text.is_empty()).then(parsed)
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// A response in either protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub type_url: Requested,
    pub nonce: Nonce,
    pub resources: Vec<Arc<Encoded>>,
    /// Delta only: resources that no longer exist, or that the client named and that never existed.
    pub removed: Vec<Arc<str>>,
    /// State of the world only: `version_info`, a hash over all requested resources that the client then has.
    pub version: Option<Version>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_round_trip_and_others_are_foreign() {
        assert_eq!(Nonce::from_wire(&Nonce(26).to_string()), Some(Nonce(26)));
        assert_eq!(Nonce::from_wire(""), None);
        assert_eq!(Nonce::from_wire("what?"), Some(Nonce::FOREIGN));
    }
}
