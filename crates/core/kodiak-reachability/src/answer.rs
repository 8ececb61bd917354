//! Whether a client may call a destination, and why.

/// Verdict with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    Yes(Yes),
    No(No),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Yes {
    /// KRI of the policy that allows it, at one inbound at least.
    Allowed { policy: String },
    /// No permission acts on the call: it is in plain text, or leaves the mesh.
    Open,
    /// The destination or the client is unknown, so nothing speaks against it.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum No {
    /// KRI of the policy that denies it, at one inbound at least.
    Denied { policy: String },
    /// No policy of the destination matches the client.
    NotAllowed,
    /// The inbound refuses plain text, and the client calls without mTLS.
    RefusesPlaintext,
    /// The inbound has no certificate, and the client calls with mTLS.
    RefusesMtls,
}

impl Answer {
    pub fn is_yes(&self) -> bool {
        matches!(self, Self::Yes(_))
    }
}
