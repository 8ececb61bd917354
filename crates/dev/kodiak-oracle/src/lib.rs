//! Answers of Envoys: whether a call gets through, and if not, where it ends. And the random meshes to ask about.
//!
//! ```text
//!  meshes: random documents --> settled: as the control plane stores them --> engine --> Envoy resources
//!                                                                                            |
//!                     Oracle: the client's listener, route, cluster and endpoints,  <--------+
//!                     then TLS, filter chain and RBAC of the server
//! ```
//!
//! **Invariant:** [`Oracle`] reads Envoy resources alone, certificates and trusted CAs among them, and no resource of a mesh.
//! So it agrees with nothing by construction: answers to people and decisions about trimming are compared with it.

#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "for tests: one that cannot go on says where")]

mod certificates;
pub mod documents;
mod envoy;
pub mod meshes;
mod oracle;
mod requests;
pub mod settled;

pub use certificates::{Certificate, Certificates};
pub use oracle::{Answer, Attempt, Caller, Oracle, Reason};
