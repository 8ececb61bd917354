//! Lifecycle of proxies, on a real store and a clock that tests advance. The tests take the place of the port.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admission;
mod arrival;
mod bed;
mod bootstrap;
mod bound_fields;
mod concurrent_put;
mod deregistration;
mod drain;
mod headers;
mod health;
mod insights;
mod leader;
mod pushes;
mod recheck;
mod resolve;
mod traffic;
mod unauthenticated;
mod unauthorized;
