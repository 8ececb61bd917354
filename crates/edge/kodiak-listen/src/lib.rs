//! The accept loop of every port: TCP or a Unix socket, with or without TLS, HTTP/1.1 or HTTP/2, with one set of
//! limits.
//!
//! In: connections. Out: requests to a [`Service`], each with its [`Client`]. Start with [`Server`]; `table.rs` decides
//! which connections are admitted, `activity.rs` how long a connection may stay, `connection.rs` serves its requests.
//!
//! **Invariant:** the loop always accepts. At a limit, the connection that has been without a request for the longest
//! time is closed for the new one; if all are busy, the new one is closed at once. Idle connections lock out no client.
//! **Invariant:** a connection has a deadline in every state, except while it carries a stream without an end.
//! **Invariant:** knows nothing of the served content.

mod activity;
mod body;
mod connection;
mod limits;
mod observer;
mod peer;
mod reads;
mod server;
mod table;

pub use body::Tracked;
pub use connection::Client;
pub use limits::ConnectionLimits;
pub use observer::{ConnectionObserver, Refused};
pub use peer::Peer;
pub use server::{Listener, Server, Service};
