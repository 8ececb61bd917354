//! kodiak-testkit

pub mod disk;
pub mod envoy;
pub mod postgres;
pub mod simulate;
pub mod skip;
