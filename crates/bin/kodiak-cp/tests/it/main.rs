//! Whole control planes in the test process, over TCP, on ports that the system chooses.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod access;
mod ads;
mod bounds;
mod calls;
mod connections;
mod defaults;
mod diagnostics;
mod diff;
mod full_disk;
mod grpc;
mod harness;
mod history;
mod identities;
mod imports;
mod insights;
mod inspect;
mod kuma_metrics;
mod kumactl;
mod leader;
mod monitoring;
mod proxies;
mod quarantine;
mod reachability;
mod resources;
mod restart;
mod saturated;
mod secrets;
mod services;
mod several;
mod socket;
mod tokens;
mod traffic;
mod unreadable;
