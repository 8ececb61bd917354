//! Tests of what callers see of resources.
