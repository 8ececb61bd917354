//! Reconcilers that run on the leader: MeshServices with their status, virtual addresses and hostnames, virtual
//! addresses of `kuma.io/service` tags, Workloads with their status, the providers of MeshIdentities, and the steps of mTLS rollouts.
//!
//! **Invariant:** reconcilers are level-triggered: they compare desired and stored state, so running twice is harmless.
//! **Invariant:** only the leader writes, and every write is a compare-and-swap on the version that was read.
//! **Invariant:** a stored resource that panics a reconciler is ignored, and all others are reconciled; see
//! [`quarantine`].
//! **Invariant:** decisions are pure functions in `kodiak-services`, `kodiak-identity` and `kodiak-rollout`; this crate reads
//! and writes.

mod documents;
mod identities;
mod leader;
mod mtls;
mod progress;
pub mod quarantine;
mod services;

pub use identities::run as run_identities;
pub use kodiak_identity::{AbsenceLimits, Moment, RolloutStatus, rollout_status};
pub use mtls::run as run_mtls;
pub use services::{preview, run as run_services};
