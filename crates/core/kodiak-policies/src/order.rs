//! The order of filters. One table for each kind of chain, with reasons.

/// HTTP filters, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpStep {
    /// Who may not call costs nothing and is counted nowhere else.
    Permissions,
    /// Counts what is answered, so right before it.
    GrpcStats,
    /// Terminal, must be last.
    Router,
}

/// Network filters, outermost first. What carries the connection comes after all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkStep {
    /// Before a connection to the workload is opened.
    Permissions,
    /// What routes ask about the caller, so before there are any.
    Caller,
}
