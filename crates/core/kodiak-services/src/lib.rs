//! Services of a mesh: the proxies behind them, their status, addresses and hostnames, and who reaches them.
//!
//! - [`service_status`] reconciles all of it: start at its `Keeper`.
//! - [`generated_services`] derives MeshServices from Dataplanes, [`membership`] finds the proxies of a service,
//!   [`service_addresses`] and [`vips`] assign virtual addresses, [`hostnames`] renders names.
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
pub mod vips;
