//! Streams of connected proxies.

pub(crate) mod rejection;
pub(crate) mod rollout;
pub(crate) mod status;
pub(crate) mod stream;
