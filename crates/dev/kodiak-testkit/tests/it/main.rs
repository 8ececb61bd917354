//! Whole meshes, from user documents to proxy configuration: golden cases, a real Envoy, and the simulator.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod agreement;
mod cases;
mod laws;
mod pairs;
mod previews;
mod reachability;
mod recorded;
mod regex;
mod spire;
mod trimming;
