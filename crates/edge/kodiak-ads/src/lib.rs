//! The port that proxies talk to.
//!
//! In: TLS connections with `POST /bootstrap` and gRPC streams. Out: shared encoded resources. What a proxy may have, and
//! who it is, is answered by [`Proxies`]; what is sent when, by `kodiak-xds-stream`. This crate only carries.

pub mod proxies;

pub use proxies::{Closing, Credential, Hello, Protocol, Proxies, Reply, Report, Session, StreamReport};
