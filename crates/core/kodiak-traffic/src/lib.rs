//! Observed traffic of a mesh: which clients called which destinations, from load reports of Envoys, and which addresses
//! called servers without mTLS, from reports of their sidecars.
//!
//! ```text
//!  load report --> ClusterLoad --ClusterNames--> Recorded: edges, and when each client was observed
//!  PlaintextReport of a server ------------------>  |      callers without mTLS
//!                                                   |  merged over control planes and restarts
//!                                                   v
//!                                          ObservedTraffic: answer for people
//! ```
//!
//! A client is all proxies with the same `kuma.io/service` values, not a single proxy. A destination is a `kuma.io/service`,
//! or the KRI of a MeshService, MeshExternalService or MeshMultiZoneService.
//!
//! **Invariant:** pure: the time is an argument.
//! **Invariant:** merging is commutative and associative, and counts nothing twice; a property test checks it.
//! **Invariant:** a cluster whose name may mean more than one destination is not counted for any of them.
//! **Invariant:** the number of recorded edges and of callers without mTLS is bounded, and those that did not fit are
//! counted.

#![deny(clippy::disallowed_methods)]

mod caller;
mod client;
mod clusters;
mod coverage;
mod load;
mod observed;
mod plaintext;
mod recorded;
mod selection;
#[cfg(test)]
mod tests;

pub use caller::PermissionForm;
pub use client::ClientId;
pub use clusters::ClusterNames;
pub use coverage::Coverage;
pub use load::{ClusterLoad, covered_seconds};
pub use observed::{ObservedClient, ObservedDestination, ObservedEdge, ObservedTraffic, PlaintextCaller};
pub use plaintext::{CallerTraffic, PlaintextReport, ReportedCaller, ServerCallers};
pub use recorded::{ClientTraffic, EdgeTraffic, Recorded};
pub use selection::Selection;
