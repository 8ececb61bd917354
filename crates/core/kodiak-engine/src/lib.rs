//! The mesh as proxies see it, kept up to date by changes.
//!
//! **Invariant:** pure: the clock, keys and connections come in as arguments.

#![deny(clippy::disallowed_methods)]

pub mod identity;

pub use identity::{Identities, Leaf, LeafRequest};
