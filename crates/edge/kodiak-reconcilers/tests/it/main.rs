//! The reconcilers over a real store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bed;
mod external;
mod meshes;
mod services;
mod vips;
mod workloads;
