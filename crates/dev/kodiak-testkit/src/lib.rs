//! Test infrastructure: a real PostgreSQL and Envoy, small disks, and a simulator of Envoy.

pub mod disk;
pub mod envoy;
pub mod postgres;
pub mod simulate;
pub mod skip;
