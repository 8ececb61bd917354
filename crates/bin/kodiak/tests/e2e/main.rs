//! Whole meshes: the real binary as control plane and as proxy runner, real Envoys, and requests that must not fail.
//!
//! Every test has a control plane, a folder and loopback addresses of its own, so all of them run beside each other.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clock;
mod cluster;
mod damage;
mod disk;
mod endpoints;
mod expiry;
mod floods;
mod harness;
mod mtls;
mod panics;
mod partition;
mod permissions;
mod policies;
mod probes;
mod rejection;
mod requests;
mod restart;
mod services;
mod soak;
mod tokens;
mod transparent;
