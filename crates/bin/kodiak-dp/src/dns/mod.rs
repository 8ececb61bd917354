//! DNS for the application: names of the mesh are answered here, all others by the host's resolvers.
//!
//! The records come from the control plane, through Envoy; see `refresh.rs`.
//!
//! **Invariant:** no datagram causes a panic, and every wait has a timeout.

mod message;
mod refresh;
mod resolvers;
mod server;
mod table;

pub(crate) use server::{Server, Settings};
