//! What follows from the resources of a mesh, for people and for proxies.
//!
//! **Invariant:** views are pure functions of what they are given; equal inputs give equal views.
//! **Invariant:** nothing here knows Envoy, a store or HTTP.

#![deny(clippy::disallowed_methods)]

pub mod generated_services;
pub mod hostnames;
pub mod insights;
pub mod inspect;
pub mod membership;
pub mod migration;
pub mod policy_status;
pub mod reachable;
pub mod reference_status;
pub mod rollout;
pub mod service_addresses;
pub mod service_status;
pub mod vips;
