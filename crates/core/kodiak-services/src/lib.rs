//! Services of a mesh: the proxies behind them, their status, addresses and hostnames, and who reaches them.
//!
//! - [`service_status`] reconciles all of it, and Workloads: start at its `ServiceReconciler`.
//! - [`generated_services`] derives MeshServices from Dataplanes, [`membership`] finds the proxies of a service,
//!   [`service_addresses`] allocates virtual addresses for them and for the services of [`tag_services`], whose addresses
//!   are stored as [`vips`]; [`hostnames`] renders names.
//! - [`reachable`] selects the destinations of a client.
//!
//! **Invariant:** pure functions; equal inputs give equal results, and state that is updated by changes equals state
//! that is computed from scratch.
//! **Invariant:** nothing here depends on Envoy, a store or HTTP.

#![deny(clippy::disallowed_methods)]

pub mod generated_services;
pub mod hostnames;
pub mod membership;
pub mod reachable;
pub mod service_addresses;
pub mod service_status;
pub mod tag_services;
pub mod vips;
