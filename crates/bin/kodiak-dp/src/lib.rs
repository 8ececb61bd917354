//! The sidecar process (`kodiak dp`): runs the Envoy of an application, answers its DNS queries, forwards its access logs,
//! and serves its metrics.
//!
//! In: [`run::Options`], already validated by the command. Out: an Envoy with a bootstrap of the control plane, and no trace
//! of it after its end. [`transparent_proxy`] redirects the traffic of the machine to that Envoy.
//!
//! **Invariant:** what the user configured is used or rejected; nothing else takes its place.
//! **Invariant:** a file under the name of the program is a complete program; an incomplete one has another name.
//! **Invariant:** where to look for Envoy is an argument; see [`envoy::Environment`].
//! **Invariant:** the certificate of the control plane is always verified, by the CAs that the user configured.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod access_logs;
mod dns;
mod dynamic_config;
pub mod envoy;
mod metrics;
mod plaintext_callers;
pub mod run;
mod socket;
pub mod system_ca;
pub mod transparent_proxy;
