//! The policies: one folder each, all of the same shape, one line here.
//!
//! **Invariant:** a policy never looks at another policy. Matching and merging are not here: they are the same for all.

#![deny(clippy::disallowed_methods)]

mod file_path;
mod from_to;
mod gateway_scope;
pub mod header;
mod matches;
pub mod mesh_access_log;
pub mod mesh_circuit_breaker;
pub mod mesh_fault_injection;
pub mod mesh_health_check;
pub mod mesh_http_route;
pub mod mesh_load_balancing_strategy;
pub mod mesh_metric;
pub mod mesh_passthrough;
pub mod mesh_proxy_patch;
pub mod mesh_rate_limit;
pub mod mesh_retry;
pub mod mesh_tcp_route;
pub mod mesh_timeout;
pub mod mesh_tls;
pub mod mesh_trace;
pub mod mesh_traffic_permission;
pub mod open_telemetry;
mod percentage;
pub mod policy_status;
mod positive;
mod routes;
mod top_level;
mod url;
mod variant;

use kodiak_model::Kind;

pub const ALL: &[&Kind] = &[
    &mesh_access_log::KIND,
    &mesh_circuit_breaker::KIND,
    &mesh_fault_injection::KIND,
    &mesh_health_check::KIND,
    &mesh_http_route::KIND,
    &mesh_load_balancing_strategy::KIND,
    &mesh_metric::KIND,
    &mesh_passthrough::KIND,
    &mesh_proxy_patch::KIND,
    &mesh_rate_limit::KIND,
    &mesh_retry::KIND,
    &mesh_tcp_route::KIND,
    &mesh_timeout::KIND,
    &mesh_tls::KIND,
    &mesh_trace::KIND,
    &mesh_traffic_permission::KIND,
];
