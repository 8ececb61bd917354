//! DNS for the application: names of the mesh are answered here, all others by the resolvers of the machine.
//!
//! The names come from the control plane, through Envoy; see `refresh.rs`.
//!
//! **Invariant:** no datagram panics it, and every wait has a timeout.

mod message;
mod refresh;
mod resolvers;
mod server;
mod table;

pub(crate) use server::{DnsSettings, Server};
