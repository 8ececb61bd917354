//! From what is known of a proxy to Envoy resources, encoded once.
//!
//! Every builder is a function from one input ([`input`]) to Envoy messages; [`encode`](encode()) makes the bytes and
//! the version that all proxies with this input share. Who asks for which resource, and when, is decided elsewhere.
//!
//! **Invariant:** pure; equal inputs give equal bytes, on every machine and in every build.
//! **Invariant:** names of listeners, clusters, routes and secrets are made in [`names`] and nowhere else.

#![deny(clippy::disallowed_methods)]

mod encode;
pub mod input;
pub mod names;

pub use encode::{encode, encode_as};
