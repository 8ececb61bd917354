//! The accept loop of every port: TCP or a Unix socket, with or without TLS, HTTP/1.1 or HTTP/2, with one set of limits.
//!
//! In: connections. Out: requests to a [`Service`], each with the [`Client`] that sent it. Start with [`Server`];
//! `table.rs` decides who may connect, `activity.rs` how long a connection may stay open, `connection.rs` serves its
//! requests.
//!
//! **Invariant:** the loop always accepts. At a limit, the connection that has been without a request for the longest time
//! is closed for the new one; where all are busy, the new one is closed at once. Silent connections lock nobody out.
//! **Invariant:** a connection has a deadline in every state, except while it carries a long-lived stream.
//! **Invariant:** a line that anybody can cause is logged at most every ten seconds, with the number of those left out.
//! **Invariant:** does not depend on the service behind a port.

mod activity;
mod body;
mod connection;
mod limits;
mod log;
mod observer;
mod peer;
mod reads;
mod server;
mod table;

pub use body::Tracked;
pub use connection::Client;
pub use limits::ConnectionLimits;
pub use log::{LogThrottle, printable};
pub use observer::{ConnectionObserver, Refused};
pub use peer::Peer;
pub use server::{Listener, Server, Service};
