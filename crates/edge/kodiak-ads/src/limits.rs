//! Limits of the proxy port that are not about connections.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// For a stream to introduce itself.
    pub hello: Duration,
    /// Bytes buffered at a time for clients that are not admitted yet: first messages of streams, and bodies of
    /// requests such as `/bootstrap`. Those that do not fit wait their turn.
    pub unadmitted_bytes: usize,
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
            hello: Duration::from_secs(30),
            unadmitted_bytes: 64 * 1024 * 1024,
            farewell: Duration::from_secs(10),
            drain: Duration::from_secs(35),
            http_body: 1024 * 1024,
            http_body_time: Duration::from_secs(20),
        }
    }
}
