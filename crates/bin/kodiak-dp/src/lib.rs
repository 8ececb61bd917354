//! The proxy runner: what stands beside an application, runs its Envoy, and answers its DNS questions.
//!
//! In: [`run::Options`], already checked by the command. Out: an Envoy that has asked the control plane who it is, and
//! nothing of it once it ended. [`transparent_proxy`] sends the machine's traffic to that Envoy.
//!
//! **Invariant:** what the user named is used or refused; nothing else is taken in its place.
//! **Invariant:** a file that stands under the name of the program is a whole program; what is half made has another name.
//! **Invariant:** where Envoy is looked for is an argument; see [`envoy::Environment`].
//! **Invariant:** the certificate of the control plane is always verified, by the authorities that the user gave.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

mod dns;
pub mod envoy;
pub mod run;
mod socket;
pub mod system_ca;
pub mod transparent_proxy;
