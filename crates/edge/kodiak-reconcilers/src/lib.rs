//! What the leading control plane keeps in order by itself: services, with all that it knows of them, the addresses of
//! old names, and the steps of mutual TLS.
//!
//! **Invariant:** a reconciler is told *that* something changed, never *what*; running twice is harmless.
//! **Invariant:** only the leader writes, and every write expects what it has read.
//! **Invariant:** a stored resource that panics a reconciler is left out, and the rest goes on; see [`quarantine`].
//! **Invariant:** nothing is decided here; the decisions are pure functions in `kodiak-services` and `kodiak-rollout`.

mod documents;
mod leader;
mod mtls;
mod progress;
pub mod quarantine;
mod services;
mod vips;

pub use mtls::run as run_mtls;
pub use progress::waiting as mtls_waiting;
pub use services::{foresee, run as run_services};
pub use vips::{Services, run as run_vips};
