//! kodiak-testkit

pub mod envoy;
pub mod postgres;
