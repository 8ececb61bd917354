//! Test infrastructure: a real PostgreSQL, Envoy and SPIRE, small disks, and a simulator of Envoy.

pub mod disk;
pub mod envoy;
pub mod otlp;
pub mod postgres;
pub mod simulate;
pub mod skip;
pub mod spire;
