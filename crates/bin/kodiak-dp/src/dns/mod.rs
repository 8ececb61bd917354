//! DNS for the application: names of the mesh are answered here, all others by the resolvers of the machine.
//!
//! The names come from the control plane, through Envoy; see `refresh.rs`. A proxy that lost destinations has only the
//! names of the others, and asks the control plane for names of the mesh that it does not have; see `asked.rs`.
//!
//! **Invariant:** no datagram panics it, and every wait has a timeout.

mod asked;
mod message;
mod refresh;
mod resolvers;
mod server;
mod table;

pub(crate) use asked::{Answer, Directory};
pub(crate) use server::{DnsSettings, Server};
