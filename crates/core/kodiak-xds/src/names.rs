//! The names of Envoy resources.
