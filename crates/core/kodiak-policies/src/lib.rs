//! The policies: one folder each, all of the same shape, one line here.
//!
//! **Invariant:** a policy never looks at another policy. Matching and merging are not here: they are the same for all.

#![deny(clippy::disallowed_methods)]

mod convert;
mod file_path;
mod from_to;
mod gateway_scope;
pub mod header;
mod matches;
pub mod open_telemetry;
pub mod order;
mod percentage;
mod policy;
pub mod policy_status;
mod positive;
mod regex;
mod routes;
#[cfg(test)]
mod samples;
pub mod target;
mod top_level;
mod url;
mod variant;

use kodiak_model::Kind;

pub use policy::{Confs, Entry, Policy, Source};

/// A policy is its folder and its line here.
macro_rules! register {
    ($($folder:ident),* $(,)?) => {
        $(pub mod $folder;)*

        pub const ALL: &[&Kind] = &[$(&$folder::KIND),*];

        /// Those that change what proxies get. The others are stored and checked, and say that they are not in force.
        fn all_in_force() -> impl Iterator<Item = &'static dyn Policy> {
            [$($folder::POLICY),*].into_iter().flatten()
        }
    };
}

register![
    mesh_access_log,
    mesh_circuit_breaker,
    mesh_fault_injection,
    mesh_health_check,
    mesh_http_route,
    mesh_load_balancing_strategy,
    mesh_metric,
    mesh_passthrough,
    mesh_proxy_patch,
    mesh_rate_limit,
    mesh_retry,
    mesh_tcp_route,
    mesh_timeout,
    mesh_tls,
    mesh_trace,
    mesh_traffic_permission,
];

/// The policies that are in force, in the order in which they are applied.
pub fn in_force() -> &'static [&'static dyn Policy] {
    static SORTED: std::sync::LazyLock<Vec<&'static dyn Policy>> = std::sync::LazyLock::new(|| {
        let mut all: Vec<_> = all_in_force().collect();
        all.sort_by_key(|policy| policy.kind().policy.map(|facts| facts.order));
        all
    });
    &SORTED
}
