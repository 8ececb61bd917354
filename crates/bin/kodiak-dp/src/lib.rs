//! The sidecar process `kodiak dp`: runs the Envoy of an application, and serves its DNS.
//!
//! In: [`run::Options`], already validated by the command. Out: a running Envoy with a bootstrap from the control plane;
//! it leaves nothing behind when it ends. [`transparent_proxy`] redirects the host's traffic to that Envoy.
//!
//! **Invariant:** programs and files that the user named are used or rejected; there is no fallback.
//! **Invariant:** a file with the name of the program is complete; incomplete ones have another name.
//! **Invariant:** the places where Envoy is searched are an argument; see [`envoy::Environment`].
//! **Invariant:** the certificate of the control plane is always verified, with the CAs that the user provided.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod dns;
pub mod envoy;
pub mod run;
mod socket;
pub mod system_ca;
pub mod transparent_proxy;
