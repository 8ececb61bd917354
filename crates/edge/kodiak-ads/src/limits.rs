//! Limits of the proxy port that are not about connections.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time for the first message of a stream.
    pub hello: Duration,
    /// Bytes buffered at a time for clients that are not admitted yet: first messages of streams, and bodies of
    /// requests such as `/bootstrap`. Those that do not fit wait their turn.
    pub unadmitted_bytes: usize,
    /// Time for a client to read the trailers of its stream; after that its connection is closed.
    pub farewell: Duration,
    /// Time for connections of replaced listeners. The sidecar process lets Envoy drain them in 30 seconds.
    pub drain: Duration,
    /// Limits of plain HTTP requests.
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
