//! Answers to questions of people about one mesh: which policies apply to a proxy and what they merge to, the status of a
//! policy and of references, the certificates of proxies, who may call whom and why, insights, and the proxies that a
//! Prometheus scrapes.
//!
//! **Invariant:** pure functions of what they are given; equal inputs give equal answers.
//! **Invariant:** nothing here depends on Envoy, a store or HTTP.

#![deny(clippy::disallowed_methods)]

pub mod calls;
pub mod identities;
pub mod insights;
pub mod inspect;
pub mod monitoring;
mod near;
pub mod policy_status;
pub mod reference_status;
pub mod why;
