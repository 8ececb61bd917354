//! The lives of proxies, on a real store and a clock that tests move on. The port is played by the tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admission;
mod bed;
mod bootstrap;
mod concurrent_put;
mod drain;
mod headers;
mod health;
mod insights;
mod leaving;
mod recheck;
mod unauthenticated;
mod upkeep;
mod vouching;
