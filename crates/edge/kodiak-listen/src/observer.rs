//! Connections as metrics see them.

/// Counts connections of one port.
pub trait ConnectionObserver: Send + Sync + 'static {
    fn opened(&self);
    fn closed(&self);
    /// Closed by us because of a limit; one that had been accepted is reported by [`Self::closed`] too.
    fn refused(&self, reason: Refused);
}

/// The limit that closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The port has all connections that it may have, and each carries a request.
    TotalLimit,
    /// The peer has all connections that it may have, and each carries a request.
    PeerLimit,
    /// Closed for a newer connection.
    Evicted,
    /// The process has no file descriptor left.
    Descriptors,
    FirstByte,
    Handshake,
    RequestHead,
    /// A request or its response took too long.
    Exchange,
    /// The client aborted too many requests.
    Resets,
    /// The user of the process at the other end of a Unix socket.
    User,
}

impl Refused {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::TotalLimit => "total_limit",
            Self::PeerLimit => "peer_limit",
            Self::Evicted => "evicted",
            Self::Descriptors => "descriptors",
            Self::FirstByte => "first_byte",
            Self::Handshake => "handshake",
            Self::RequestHead => "request_head",
            Self::Exchange => "exchange",
            Self::Resets => "resets",
            Self::User => "user",
        }
    }
}
