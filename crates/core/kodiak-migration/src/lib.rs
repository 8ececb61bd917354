//! Migrations: from Kuma, from `kuma.io/service` tags to MeshService, and of permissions from tags to SPIFFE IDs.
//!
//! ```text
//!  MeshView --> Landscape: services by their tags, with the MeshServices that may replace them
//!                 --> convert: legacy references of policies to new ones, or the reason why not
//!                 --> consumer: destinations of one proxy, legacy and new
//!                 --> breaks: destinations that it would lose in another mode
//!  facts about all of them --> plan: the next safe step
//!  World --> identity_permissions: `from` of MeshTrafficPermissions to `rules`, with a proof
//!  export of Kuma --> kuma: resources to import, with legacy policies converted
//! ```
//!
//! **Invariant:** an ambiguous reference is not converted, and is reported with the reason.

mod breaks;
mod consumer;
mod convert;
pub mod identity_permissions;
pub mod kuma;
mod landscape;
mod old;
pub mod plan;
mod routes;
mod standing;
#[cfg(test)]
mod tests;

pub use breaks::{Break, BreakReason};
pub use consumer::{Consumer, Known, Lists};
pub use convert::{Conversion, Finding, OldItems, Outcome, convert};
pub use landscape::Landscape;
pub use standing::{Object, PolicyStanding, ServiceStanding, Standing};
