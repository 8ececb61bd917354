//! Views that are derived from the resources of a mesh: services and their status, rollouts, inspection, migration.
//!
//! **Invariant:** views are pure functions of their inputs; equal inputs give equal views.
//! **Invariant:** no dependency on Envoy, the store or HTTP.

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
