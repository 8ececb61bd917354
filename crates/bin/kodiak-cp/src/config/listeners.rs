//! Settings of ports: connection limits, and the socket for local administration.

use std::path::PathBuf;

use kodiak_listen::ConnectionLimits;
use kodiak_model::GoDuration;
use serde::{Deserialize, Serialize};

/// Limits of one port. `kodiak-listen` has further limits with fixed values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ListenerLimits {
    /// Maximum of concurrent connections.
    pub max_connections: usize,
    /// Maximum of connections of one IPv4 address or one IPv6 /64; does not apply to loopback.
    pub max_connections_per_peer: usize,
    /// Idle time after which a connection is closed.
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

    /// Overrides the defaults of a port.
    pub(crate) fn over(&self, defaults: ConnectionLimits) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.max_connections.max(1),
            connections_per_peer: self.max_connections_per_peer.max(1),
            idle: self.idle_timeout.to_std().filter(|idle| !idle.is_zero()).unwrap_or(defaults.idle),
            ..defaults
        }
    }
}

/// Unix socket whose clients have administrator rights.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ApiSocket {
    pub enabled: bool,
    /// Path of the socket; `kodiak.sock` in the working directory when empty.
    pub path: PathBuf,
}

impl Default for ApiSocket {
    fn default() -> Self {
        Self { enabled: true, path: PathBuf::new() }
    }
}
