//! Generates Envoy resources, encoded once.
//!
//! Every builder is a function from one input ([`input`]) to Envoy messages; [`encode`](encode()) computes the bytes
//! and the version that all proxies with this input share. Which proxy gets which resource, and when, is decided
//! elsewhere.
//!
//! **Invariant:** pure; equal inputs give equal bytes, on every machine and in every build.
//! **Invariant:** the completeness of a snapshot is checked by names alone ([`check`]); bytes are never decoded again.
//! **Invariant:** names of listeners, clusters, routes and secrets are made in [`names`] and nowhere else.

#![deny(clippy::disallowed_methods)]

mod address;
pub mod admin;
pub mod bootstrap;
mod built;
mod carrier;
pub mod check;
mod clusters;
pub mod collector;
pub mod direct_access;
pub mod dns;
pub mod dynamic_config;
mod encode;
pub mod endpoints;
pub mod external;
mod filters;
pub mod health;
pub mod hostnames;
pub mod inbound;
pub mod input;
mod metadata;
pub mod metrics;
pub mod names;
pub mod node;
pub mod outbound;
pub mod passthrough;
mod plaintext_log;
pub mod probes;
mod routes;
pub mod secrets;
mod spire;
#[cfg(test)]
mod testing;
mod timeouts;
pub mod tls;
pub mod trimmed;

pub use built::{Built, build_assignment, build_cluster, build_listener, build_secret, build_secret_as};
pub use encode::{encode, encode_as};
