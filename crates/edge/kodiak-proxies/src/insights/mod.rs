//! DataplaneInsights of connected proxies.

pub(crate) mod flush;
pub(crate) mod leader;
pub(crate) mod metadata;
pub(crate) mod observation;
