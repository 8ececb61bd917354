//! What goes out, and the nonce by which the client answers it.

use std::fmt;
use std::sync::Arc;

use crate::resource::{Encoded, Version};
use crate::type_url::Requested;

/// Names a response on its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nonce(pub(crate) u64);

impl Nonce {
    /// Never given out: stands for whatever a client sends that is not from us.
    const FOREIGN: Self = Self(0);

    /// `None` when the client answers nothing.
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

/// One message to the client, in either protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub type_url: Requested,
    pub nonce: Nonce,
    pub resources: Vec<Arc<Encoded>>,
    /// Delta only: what no longer exists, or never did although the client named it.
    pub removed: Vec<Arc<str>>,
    /// State of the world only: `version_info`, a hash over all that the client then has of what it asked for.
    pub version: Option<Version>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_read_what_they_print_and_the_rest_is_foreign() {
        assert_eq!(Nonce::from_wire(&Nonce(26).to_string()), Some(Nonce(26)));
        assert_eq!(Nonce::from_wire(""), None);
        assert_eq!(Nonce::from_wire("what?"), Some(Nonce::FOREIGN));
    }
}
