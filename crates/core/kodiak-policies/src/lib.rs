//! The policies: one folder each, all with the same files, one line here.
//!
//! **Invariant:** a policy never reads another policy. Matching and merging are the same for all kinds and not part of
//! this crate.

#![deny(clippy::disallowed_methods)]

mod caller_uris;
mod callers;
mod convert;
mod file_path;
mod from_to;
mod gateway_scope;
pub mod header;
mod matches;
pub mod open_telemetry;
pub mod order;
pub mod otlp_backends;
pub mod passthrough;
mod percentage;
mod policy;
pub mod policy_status;
mod positive;
mod regex;
mod routes;
#[cfg(test)]
mod samples;
pub mod target;
pub mod timeouts;
mod top_level;
mod url;
mod variant;

use kodiak_model::Kind;

pub use policy::{Confs, Entry, Policy, Source};

/// Adds a policy: its folder and its line here.
macro_rules! register {
    ($($folder:ident),* $(,)?) => {
        $(pub mod $folder;)*

        pub const ALL: &[&Kind] = &[$(&$folder::KIND),*];

        /// The policies that affect proxies. The others are only stored and validated, and have the status "not in
        /// force".
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

/// Whether a policy of this kind applies only to callers with certificates.
pub fn needs_mtls(kind: &Kind) -> bool {
    find(kind.name).is_some_and(Policy::needs_mtls)
}

/// Whether a policy of this kind applies only to proxies with transparent proxying.
pub fn needs_transparent_proxying(kind: &Kind) -> bool {
    find(kind.name).is_some_and(Policy::needs_transparent_proxying)
}

/// The policy of a kind, if it affects proxies.
pub fn find(kind: &str) -> Option<&'static dyn Policy> {
    in_force().iter().find(|policy| policy.kind().name == kind).copied()
}

/// Whether `rules` of this kind for all callers are merged.
pub fn merges_rules(kind: &Kind) -> bool {
    in_force().iter().any(|policy| policy.kind().name == kind.name && policy.merges_rules())
}

/// The policies that affect proxies, in the order in which they are applied.
pub fn in_force() -> &'static [&'static dyn Policy] {
    static SORTED: std::sync::LazyLock<Vec<&'static dyn Policy>> = std::sync::LazyLock::new(|| {
        let mut all: Vec<_> = all_in_force().collect();
        all.sort_by_key(|policy| policy.kind().policy.map(|facts| facts.order));
        all
    });
    &SORTED
}
