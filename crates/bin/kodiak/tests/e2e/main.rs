//! End-to-end tests: the real binary as control plane and sidecar, real Envoys, and requests that must not fail.
//!
//! Every test has its own control plane, folder and loopback addresses, so that all of them can run concurrently.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod clock;
mod cluster;
mod damage;
mod direct_access;
mod disk;
mod drain;
mod endpoints;
mod expiry;
mod faults;
mod floods;
mod harness;
mod identity;
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
mod traffic;
mod transparent;
mod trimming;
