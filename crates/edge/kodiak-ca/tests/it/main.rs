//! Certificates over a store in memory, as control planes that share it would make them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod admin;
mod bed;
mod leaves;
