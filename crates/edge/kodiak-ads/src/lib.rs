//! The proxy port: ADS, HDS and LRS streams, and `POST /bootstrap`.
//!
//! In: TLS connections with `POST /bootstrap` and gRPC streams. Out: shared encoded resources. [`Proxies`] decides who may
//! connect and publishes snapshots; `kodiak-xds-stream` decides what is sent when. This crate only transports. Streams of
//! health checks (`health.rs`) send checks and receive results; streams of load reports (`load.rs`) receive counters.
//!
//! Start with [`server`]; a stream is a task (`stream.rs`) that reads requests (`frames.rs`) and fills an outbox
//! (`outbox.rs`), and a body (`body.rs`) that empties it as fast as the client reads.
//!
//! **Invariant:** resources are not copied before their client takes them: a stream holds references to a response, and one
//! frame.
//! **Invariant:** a client that does not read gets no further snapshot, and after some unread responses its requests are not
//! read either.
//! **Invariant:** every input from outside is bounded, and none of it panics.
//! **Invariant:** nothing of a stream is buffered before its credential was verified, and all streams that are not
//! admitted yet share one budget of bytes.

mod body;
mod budget;
mod frames;
mod grpc;
mod health;
pub mod limits;
mod load;
mod outbox;
pub mod proxies;
mod requests;
pub mod server;
mod stream;
mod wire;

pub use limits::Limits;
pub use proxies::{
    Closing, Credential, HealthHello, HealthReport, HealthSession, Hello, LoadHello, LoadReport, LoadSession, Protocol,
    Proxies, Reply, Report, Session, StreamReport,
};
pub use server::serve;
