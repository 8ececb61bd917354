//! The language we speak to Envoy: its protobuf messages, their type URLs and their JSON.
//!
//! `generated/` and `descriptors.bin` are written by `cargo run -p kodiak-protogen` and committed, so that nobody needs
//! `protoc`. Modules are named as the protobuf packages are: [`envoy::config::cluster::v3::Cluster`]. Wrapped values
//! (`google.protobuf.UInt32Value` and the like) are plain ones: `Option<u32>`.
//!
//! **Invariant:** equal messages have equal bytes. Maps are ordered, in the well-known types too, and what is read from
//! JSON is ordered down to the last nested `Any`. Versions are made from these bytes.
//! **Invariant:** bytes from outside cannot panic us or exhaust the stack: how deep messages may nest is bounded.
//! **Invariant:** knows messages, not meshes; nothing here depends on a crate of ours, a runtime or a service stub.

#![deny(clippy::disallowed_methods)]

mod duration;
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, reason = "written by prost-build")]
mod generated;
pub mod json;
mod stat_name;
mod type_url;

#[cfg(test)]
mod tests;

pub use duration::duration;
pub use generated::{envoy, google, opentelemetry, xds};
pub use stat_name::stat_name;
pub use type_url::{TypeUrl, UnpackError, any, type_urls, unpack};
