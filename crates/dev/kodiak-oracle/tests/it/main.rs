//! Answers to people and configuration of proxies, compared with the answers of Envoys over random meshes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod answers;
mod files;
mod oracle;
mod trimmed;
