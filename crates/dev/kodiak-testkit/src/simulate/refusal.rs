//! Reasons for which a call fails, and the step.

/// In the order of Envoy's steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no listener for {address}:{port}")]
    NoListener { address: String, port: u16 },
    #[error("no filter chain of listener {listener} matches the connection")]
    NoChain { listener: String },
    #[error("TLS handshake with {with} failed: {reason}")]
    Handshake { with: String, reason: String },
    /// Without a status the connection is closed.
    #[error("denied by {filter}")]
    Denied { filter: String, policy: Option<String>, status: Option<u16> },
    #[error("{listener} expects HTTP")]
    NotHttp { listener: String },
    #[error("no route matches")]
    NoRoute,
    #[error("cluster {0} does not exist")]
    NoCluster(String),
    #[error("cluster {0} has no endpoints")]
    NoEndpoints(String),
    /// The simulator does not implement this setting, and does not guess.
    #[error("the simulator does not support {0}")]
    Unsupported(String),
}

impl Refusal {
    pub(super) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

/// For settings that change the result only when they are set.
pub(super) fn refuse_if(set: bool, what: &str) -> Result<(), Refusal> {
    if set { Err(Refusal::unsupported(what)) } else { Ok(()) }
}
