//! Configuration of the control plane: read once from file, environment and flags; unknown keys are errors.

mod certificates;
mod keys;
mod listeners;
mod load;
mod multizone;
mod reachability;
mod secret;
mod services;
mod store;
#[cfg(test)]
mod tests;
mod traffic;
mod types;

pub use certificates::Certificates;
pub use listeners::{ApiSocket, ListenerLimits};
pub use load::{FromKuma, LoadError, Loaded, Sources, WithoutEffect, load};
pub use multizone::{Multizone, Zone};
pub use reachability::{Reachability, ReachabilityMode};
pub use secret::Masked;
pub use services::{GenerateFrom, Ipam, LabelPropagation, MeshService, Range, services};
pub use store::{FileStore, Postgres, PostgresTls, PostgresTlsMode, Store, StoreType};
pub use traffic::Traffic;
pub use types::*;
