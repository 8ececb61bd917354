//! Identities of proxies by MeshIdentity.

mod spiffe_id;

pub use spiffe_id::{Identity, issuing, of_proxy, possible};
