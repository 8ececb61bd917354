//! Settings of ports: how many connections they take, and the socket for local administration.

use std::path::PathBuf;

use kodiak_listen::ConnectionLimits;
use kodiak_model::GoDuration;
use serde::{Deserialize, Serialize};

/// Limits of one port. Those that are no settings have fixed values in `kodiak-listen`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListenerLimits {
    /// Connections at a time.
    pub max_connections: usize,
    /// Connections of one IPv4 address or one IPv6 /64; loopback counts only in total.
    pub max_connections_per_peer: usize,
    /// A connection without a request for so long is closed.
    pub idle_timeout: GoDuration,
}

impl ListenerLimits {
    pub(super) fn of(limits: &ConnectionLimits) -> Self {
        Self {
            max_connections: limits.connections,
            max_connections_per_peer: limits.connections_per_peer,
            idle_timeout: GoDuration::from_secs(i64::try_from(limits.idle.as_secs()).unwrap_or(i64::MAX)),
        }
    }

    /// These limits over the defaults of a port.
    pub(crate) fn over(&self, defaults: ConnectionLimits) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections.max(1),
            connections_per_peer: self.max_connections_per_peer.max(1),
            idle: self.idle_timeout.to_std().filter(|idle| !idle.is_zero()).unwrap_or(defaults.idle),
            ..defaults
        }
    }
}

/// A Unix socket: its peers are administrators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiSocket {
    pub enabled: bool,
    /// `kodiak.sock` in the working directory when empty.
    pub path: PathBuf,
}

impl Default for ApiSocket {
    fn default() -> Self {
        Self { enabled: true, path: PathBuf::new() }
    }
}
