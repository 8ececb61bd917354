//! Envoy's protobuf messages, their type URLs and their JSON.
//!
//! `generated/` and `descriptors.bin` are written by `cargo run -p kodiak-protogen` and committed, so that builds do
//! not need `protoc`. Modules are named like the protobuf packages: [`envoy::config::cluster::v3::Cluster`]. Wrapped
//! values (`google.protobuf.UInt32Value` and similar) are plain ones: `Option<u32>`.
//!
//! **Invariant:** equal messages have equal bytes. Maps are ordered, in the well-known types too, and messages that
//! are read from JSON are ordered down to the last nested `Any`. Versions are hashes of these bytes.
//! **Invariant:** input bytes cannot cause a panic or exhaust the stack: the nesting depth is bounded.
//! **Invariant:** contains messages, no mesh logic; it depends on no other crate of the workspace, no runtime and no
//! service stub.

#![deny(clippy::disallowed_methods)]

mod canonical;
mod duration;
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, reason = "written by prost-build")]
mod generated;
pub mod json;
pub mod merge;
mod stat_name;
mod type_url;

#[cfg(test)]
mod tests;

pub use duration::duration;
pub use generated::{envoy, google, opentelemetry, xds};
pub use stat_name::stat_name;
pub use type_url::{TypeUrl, UnpackError, any, type_urls, unpack};
