//! kodiak-testkit

pub mod postgres;
