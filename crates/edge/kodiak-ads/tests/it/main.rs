//! The port over real sockets: with a client of our own, with the real Envoy, and with the xDS client of gRPC.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod client;
mod delta;
mod ends;
mod envoy;
mod grpcio;
mod health;
mod http;
mod load;
mod resources;
mod slow;
mod sotw;
