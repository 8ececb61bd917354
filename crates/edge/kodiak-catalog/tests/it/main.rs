//! CAs, services and policies of a mesh, on a store in memory.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod addresses;
mod bed;
mod files;
mod identity_ca;
mod inline_key;
mod inline_secret;
mod keys;
mod mesh_services;
mod mesh_trusts;
mod planner;
mod policies;
mod references;
mod relabel;
mod switching;
mod written;
