//! Matching and merging of policies, independent of their kind.
//!
//! ```text
//!  policies, proxies --> PolicyIndex: matching policies in order --> rules: confs merged for inbounds and destinations
//! ```
//!
//! [`policy_index`] indexes policies, so that a lookup touches only candidates, and [`partial`] those that may select a proxy
//! of which little is known; [`subset`], [`inbound`] and [`outbound`] build
//! rules from the matching policies.
//!
//! **Invariant:** pure: rules depend on the policies, the proxy and the resources they reference, and on nothing else.
//! **Invariant:** the cost of a lookup is proportional to the matching policies, not to all policies.
//! **Invariant:** no policy kind is known by name; the differences of kinds are in their [`kodiak_model::PolicyFacts`].

#![deny(clippy::disallowed_methods)]

pub mod egress;
#[cfg(test)]
mod fixtures;
pub mod gateway;
pub mod inbound;
mod matched;
pub mod merge;
mod meta;
pub mod outbound;
pub mod partial;
mod policy;
pub mod policy_index;
mod precedence;
mod resources;
mod routes;
mod select;
#[cfg(test)]
mod select_tests;
pub mod subset;
mod tags;

pub use gateway::Gateway;
pub use kodiak_model::route_hash;
pub use matched::Matched;
pub use meta::{Meta, Origin, Role};
pub use policy::{Policy, Proxy};
pub use policy_index::PolicyIndex;
pub use precedence::precedence;
pub use resources::{Resource, Resources};
pub use routes::Routes;
pub use select::{Selection, SelectionContext, Shadow, select};
