//! The port that proxies talk to.
//!
//! In: TLS connections with `POST /bootstrap` and gRPC streams. Out: shared encoded resources. What a proxy may have, and
//! who it is, is answered by [`Proxies`]; what is sent when, by `kodiak-xds-stream`. This crate only carries. Beside them
//! are streams of health checks (`health.rs`): what to check goes out, what was found comes in.
//!
//! Start with [`server`]; a stream is a task (`stream.rs`) that reads requests (`frames.rs`) and fills an outbox
//! (`outbox.rs`), and a body (`body.rs`) that empties it as fast as the client reads.
//!
//! **Invariant:** resources are not copied before their client takes them: what a stream keeps of a response is
//! references, and one frame.
//! **Invariant:** a client that does not read gets no further snapshot, and after some unread answers is not read either.
//! **Invariant:** nothing taken from outside is without a bound, and none of it panics.
//! **Invariant:** nothing of a stream is buffered before its credential was verified, and all streams that are not
//! admitted yet share one budget of bytes.

mod body;
mod budget;
mod frames;
mod grpc;
mod health;
pub mod limits;
mod outbox;
pub mod proxies;
mod requests;
pub mod server;
mod stream;
mod wire;

pub use limits::Limits;
pub use proxies::{
    Closing, Credential, HealthHello, HealthReport, HealthSession, Hello, Protocol, Proxies, Reply, Report, Session,
    StreamReport,
};
pub use server::serve;
