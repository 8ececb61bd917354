//! Cases of the import from Kuma.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod kuma;
