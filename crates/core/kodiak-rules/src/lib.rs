//! Which policies are about which proxy, and what they say together. Written once, for all kinds of policies.
//!
//! ```text
//!  policies, proxies --> Book: who is matched, in which order --> rules: confs merged for inbounds and destinations
//! ```
//!
//! [`book`] finds what matches without looking at what does not; [`subset`], [`inbound`] and [`outbound`] build rules
//! from what was matched.
//!
//! **Invariant:** pure: rules depend on the policies, the proxy and the resources they name, and on nothing else.
//! **Invariant:** the cost of a question grows with the policies that match, not with those there are.
//! **Invariant:** nothing here knows a policy by its name; what kinds differ in is in their [`kodiak_model::PolicyFacts`].

#![deny(clippy::disallowed_methods)]

pub mod book;
pub mod egress;
#[cfg(test)]
mod fixtures;
pub mod gateway;
pub mod inbound;
mod matched;
pub mod merge;
mod meta;
pub mod outbound;
mod policy;
mod precedence;
mod resources;
mod routes;
mod select;
#[cfg(test)]
mod select_tests;
pub mod subset;
mod tags;

pub use book::Book;
pub use gateway::Gateway;
pub use kodiak_model::route_hash;
pub use matched::Matched;
pub use meta::{Meta, Origin, Role};
pub use policy::{Policy, Proxy};
pub use precedence::precedence;
pub use resources::{Resource, Resources};
pub use routes::Routes;
pub use select::{Context, Selection, Shadow, select};
