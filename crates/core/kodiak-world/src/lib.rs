//! Stored resources as typed values. Each stored record is decoded here, once per revision, and nowhere else.
//!
//! ```text
//!  store: record --> decode --> Resource --> World: persistent map --> engine, reconcilers, inspection, catalog rules
//! ```
//!
//! A [`Resource`] holds the typed spec and status of one record and, for the kinds that several readers need in another
//! form, that form too: [`kodiak_rules::Policy`], [`kodiak_rules::Proxy`] and [`Destination`]. A [`World`] is cheap to
//! clone: worlds share their equal parts.
//!
//! **Invariant:** pure: equal records, put in the same order, make equal worlds.
//! **Invariant:** a resource that cannot be read is a value, [`Unreadable`], and one rule holds for every reader: the
//! last readable version stays in use; without one the resource is left out; a permission denies instead
//! (`permission`).
//! **Invariant:** nothing outside this crate and the check of new documents decodes a spec (`cargo xtask tidy`).

#![deny(clippy::disallowed_methods)]

mod decode;
pub mod destination;
pub mod document;
mod index;
mod permission;
mod redirected;
mod resource;
#[cfg(test)]
mod tests;
mod world;

pub use destination::Destination;
pub use permission::deny_all;
pub use redirected::redirects_outbound;
pub use resource::{Fallback, Resource, Unreadable};
pub use world::{Change, Stored, World};
