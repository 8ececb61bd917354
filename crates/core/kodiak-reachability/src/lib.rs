//! Destinations that each client may call, derived from permissions.
//!
//! ```text
//!  clients ------> identities: the certificates that clients present, each known once
//!  destinations -> permissions of the inbounds behind them --> set of the identities that one of them may admit
//!                                                    graph --> destinations of a client, and what a change affects
//! ```
//!
//! Sets, not edges: a rule for all callers is one set, however many there are of them, and equal sets are stored once.
//!
//! **Invariant:** if a server would admit a call, the graph contains it. What is unknown counts as admitted.

pub mod admission;
mod answer;
mod any_of;
mod client;
mod enforcement;
mod graph;
mod identities;
mod identity_set;
mod mesh_graph;
mod mode;
mod permissions;
mod sets;
mod target;
#[cfg(test)]
mod tests;

pub use answer::{Answer, No, Yes};
pub use any_of::AnyOf;
pub use client::{certificate, certificates, issued};
pub use enforcement::{Enforcement, Purpose};
pub use graph::{Admission, Effect, Graph};
pub use identities::{Certificate, IdentityId};
pub use identity_set::IdentitySet;
pub use mesh_graph::{Inbounds, MeshGraph, inbounds_behind, rollout};
pub use mode::{LABEL, Mode, ModeSource};
pub use sets::SetId;
pub use target::Target;
