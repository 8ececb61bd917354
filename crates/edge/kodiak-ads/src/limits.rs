//! What one client, and all of them, may take.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub connections: usize,
    /// At a time, on one connection. A proxy needs two, and as many while it reconnects.
    pub streams: u32,
    pub handshake: Duration,
    /// From the handshake to the first request, and for the head of each over HTTP/1.1.
    pub request_head: Duration,
    /// For a stream to introduce itself.
    pub hello: Duration,
    /// A silent connection is asked this often whether it still lives.
    pub ping_every: Duration,
    pub ping_answer: Duration,
    /// For a client to take the end of its stream; after that its connection is cut.
    pub farewell: Duration,
    /// How long connections may go on that a listener of before carries. Our runner lets Envoy drain them in 30 seconds.
    pub drain: Duration,
    /// Of requests that are no streams.
    pub http_body: usize,
    pub http_body_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 20_000,
            streams: 16,
            handshake: Duration::from_secs(10),
            request_head: Duration::from_secs(10),
            hello: Duration::from_secs(30),
            ping_every: Duration::from_secs(15),
            ping_answer: Duration::from_secs(20),
            farewell: Duration::from_secs(10),
            drain: Duration::from_secs(35),
            http_body: 1024 * 1024,
            http_body_time: Duration::from_secs(20),
        }
    }
}
