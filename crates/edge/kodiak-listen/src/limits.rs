//! Limits of one port: how many connections, how long each may take for what, and how much it may buffer.

use std::time::Duration;

/// One port's limits. The constructors have the defaults of each port; the control plane's configuration changes the
/// counts and the idle time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of one IPv4 address or one IPv6 /64. Loopback and Unix peers count only in total: local proxies,
    /// tests and a local reverse proxy all share that address, and eviction protects them from each other.
    pub connections_per_peer: usize,
    /// Closes the oldest connection at a limit even while it carries a request.
    pub evict_busy: bool,
    /// From the accept to the first byte.
    pub first_byte: Duration,
    /// From the first byte to the end of the TLS handshake.
    pub handshake: Duration,
    /// For the head of a request: from the handshake for the first one, from its first byte for each later HTTP/1 one.
    pub request_head: Duration,
    /// Between requests.
    pub idle: Duration,
    /// From the head of a request to the end of its response. None where responses are streams without an end.
    pub exchange: Option<Duration>,
    /// Serves one HTTP/1 request per connection, and no HTTP/2.
    pub single_request: bool,
    pub header_bytes: u32,
    /// Concurrent HTTP/2 streams of one connection.
    pub streams: u32,
    /// Requests that a client may abort within [`RESET_WINDOW`] before its connection is closed (rapid reset).
    pub resets: u32,
    /// Streams that a client may reset before they were accepted, at a time.
    pub pending_resets: usize,
    /// Streams of one connection that we reset because of a client's errors.
    pub error_resets: usize,
    /// Bytes that a client may send on a stream ahead of being read.
    pub stream_window: u32,
    pub connection_window: u32,
    /// Bytes taken from a response ahead of being written to the socket.
    pub send_buffer: usize,
    /// HTTP/2 pings of silent connections.
    pub ping_every: Duration,
    pub ping_answer: Duration,
}

/// Aborted requests are counted over this time.
pub(crate) const RESET_WINDOW: Duration = Duration::from_secs(10);

const KIB: u32 = 1024;

impl ConnectionLimits {
    /// The REST API: short requests of people and tools.
    pub const fn api() -> Self {
        Self {
            connections: 4096,
            connections_per_peer: 512,
            evict_busy: false,
            first_byte: Duration::from_secs(10),
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            idle: Duration::from_secs(75),
            exchange: Some(Duration::from_mins(2)),
            single_request: false,
            header_bytes: 64 * KIB,
            streams: 64,
            resets: 200,
            pending_resets: 20,
            error_resets: 128,
            stream_window: 256 * KIB,
            connection_window: 1024 * KIB,
            send_buffer: 64 * 1024,
            ping_every: Duration::from_secs(15),
            ping_answer: Duration::from_secs(20),
        }
    }

    /// Metrics, and health as Kuma serves it.
    pub const fn diagnostics() -> Self {
        Self {
            connections: 1024,
            connections_per_peer: 128,
            exchange: Some(Duration::from_secs(30)),
            streams: 16,
            ..Self::api()
        }
    }

    /// Discovery for Prometheus: few clients, each with one request that waits for a change.
    pub const fn monitoring() -> Self {
        Self {
            connections: 128,
            connections_per_peer: 32,
            exchange: Some(Duration::from_mins(6)),
            streams: 16,
            ..Self::api()
        }
    }

    /// Health alone: short requests and responses, on a local network.
    pub const fn health() -> Self {
        Self {
            connections: 64,
            connections_per_peer: 64,
            evict_busy: true,
            first_byte: Duration::from_secs(2),
            request_head: Duration::from_secs(2),
            idle: Duration::from_secs(2),
            exchange: Some(Duration::from_secs(5)),
            single_request: true,
            header_bytes: 8 * KIB,
            ..Self::api()
        }
    }

    /// Envoys and their sidecar processes: a connection each, with long-lived streams. Many may share the address of one NAT.
    pub const fn proxies() -> Self {
        Self {
            connections: 20_000,
            connections_per_peer: 5000,
            exchange: None,
            // A proxy needs two, and as many while it reconnects.
            streams: 16,
            // Requests are short, and answers to them are what costs. A connection has a full window for each of its
            // streams: h2 closes those that have many short frames unread, by its window.
            stream_window: 64 * KIB,
            connection_window: 16 * 64 * KIB,
            send_buffer: 32 * 1024,
            ..Self::api()
        }
    }
}
