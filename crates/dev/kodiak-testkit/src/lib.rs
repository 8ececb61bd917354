//! Test infrastructure: a real PostgreSQL, Envoy, Prometheus and SPIRE, small disks, and a simulator of Envoy.

pub mod disk;
pub mod envoy;
pub mod postgres;
pub mod prometheus;
pub mod simulate;
pub mod skip;
pub mod spire;
