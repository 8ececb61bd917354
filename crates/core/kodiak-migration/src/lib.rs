//! The way from `kuma.io/service` to MeshService: what is still old, what it becomes, and what to do next.
//!
//! ```text
//!  MeshView --> Landscape: services by their tags, beside the MeshServices that may stand for them
//!                 --> convert: references of policies, old to new, or why not
//!                 --> consumer: what one proxy calls, old and new
//!  what is known of all of them --> plan: the next safe step
//! ```
//!
//! **Invariant:** nothing is guessed. A reference that may mean more than one thing stays as it is, with the reason.

mod consumer;
mod convert;
mod landscape;
mod old;
pub mod plan;
mod routes;
mod standing;
#[cfg(test)]
mod tests;

pub use consumer::{Consumer, Known, Lists};
pub use convert::{Conversion, Finding, OldItems, Outcome, convert};
pub use landscape::Landscape;
pub use standing::{Object, PolicyStanding, ServiceStanding, Standing};
