//! Tests over all kinds: every kind is complete, every case matches its output, every example in a README is valid.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod cases;
mod folders;
mod readmes;
mod secrets;
mod table;
mod written;
