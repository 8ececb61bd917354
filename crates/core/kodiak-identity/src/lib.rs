//! Identities of proxies: which MeshIdentity or backend issues the certificate of a proxy, its SPIFFE ID, the SPIFFE IDs that
//! clients expect, the connections that an inbound accepts, and the next step of a mesh from one issuer to another.
//!
//! **Invariant:** of several MeshIdentities that select a proxy the most specific one issues, then the first by name; one
//! without a provider never does.
//! **Invariant:** a SPIFFE ID follows from labels that an administrator wrote or a token binds, never from a proxy's claim;
//! and so does its acceptance by the callers of a MeshService ([`acceptance`]).
//! **Invariant:** a step of a rollout overtakes no proxy that may be running: one that is not connected counts for a grace
//! period, and what its certificate needs stays until that expires. The times are stored facts and the clock is an argument,
//! so every control plane decides alike.
//! **Invariant:** a record that cannot be read counts neither as absent nor as its default: the last one stays, and the rollout
//! waits.

mod access;
mod applied;
mod desired;
mod presence;
mod progress;
mod relabelled;
mod spiffe_id;
mod status;
mod tls;
mod trust;
mod vouched;

pub use access::{CallTls, ClientAccess, ServerAccess};
pub use applied::{Issuer, NoSpiffeId, best_match, expected_ids, has_certificate, issuer_of, spiffe_id as applied_id};
pub use desired::{applied_provider, creates_trust, current, desired, expected, target};
pub use presence::{AbsenceLimits, Moment, disconnected};
pub use progress::{Progress, Step};
pub use relabelled::relabelled;
pub use spiffe_id::{Identity, issuing, of_proxy};
pub use status::{RolloutStatus, rollout_status};
pub use tls::{TlsPolicies, accepts, is_permissive};
pub use trust::is_trusted;
pub use vouched::{Acceptance, Claim, acceptance, may_claim};
