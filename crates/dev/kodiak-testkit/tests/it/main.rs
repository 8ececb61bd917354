//! Whole meshes, from what users write to what proxies get: golden cases, a real Envoy, and the simulated one.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod agreement;
mod cases;
mod documents;
mod regex;
