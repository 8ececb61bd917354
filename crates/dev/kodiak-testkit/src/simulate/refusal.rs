//! Why a call does not get through, and where it ends.

/// Each says at which step Envoy refuses, in the order of the steps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("no listener takes {address}:{port}")]
    NoListener { address: String, port: u16 },
    #[error("no filter chain of listener {listener} is for this connection")]
    NoChain { listener: String },
    #[error("no TLS with {with}: {reason}")]
    Handshake { with: String, reason: String },
    /// Without a status the connection is closed.
    #[error("{filter} denies it")]
    Denied { filter: String, policy: Option<String>, status: Option<u16> },
    #[error("{listener} expects HTTP")]
    NotHttp { listener: String },
    #[error("no route is for it")]
    NoRoute,
    #[error("there is no cluster {0}")]
    NoCluster(String),
    #[error("cluster {0} has no endpoints")]
    NoEndpoints(String),
    /// The simulator does not know what Envoy does here, and does not guess. Teach it.
    #[error("the simulator does not know {0}")]
    Unsupported(String),
}

impl Refusal {
    pub(super) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

/// For what changes the outcome only when it is set.
pub(super) fn refuse_if(set: bool, what: &str) -> Result<(), Refusal> {
    if set { Err(Refusal::unsupported(what)) } else { Ok(()) }
}
