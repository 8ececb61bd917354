//! Order of filters: one table for each kind of filter chain, with reasons.

/// HTTP filters, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpStep {
    /// Denied requests cost nothing further, and no other filter counts them.
    Permissions,
    /// After permissions: denied requests do not use up the limit.
    RateLimit,
    /// Counts responses, so directly before the router.
    GrpcStats,
    /// Terminal filter, which must be last.
    Router,
}

/// Network filters, outermost first. The HTTP connection manager or TCP proxy follows all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkStep {
    /// Before a connection to the application is opened.
    Permissions,
    /// Before a connection to the application is opened.
    RateLimit,
    /// Extracts the caller's identity for route matches, so before the connection manager.
    Caller,
}
