//! xDS streams as state machines, without sockets and without a clock.
//!
//! Input: requests of one proxy, and its snapshots; output: responses that hold references to encoded resources. The
//! carrier (gRPC, a test) only translates to and from the wire.
//!
//! Start with [`stream`], which holds the order over the types; [`delta`] and [`sotw`] are the two protocols for one
//! type.
//!
//! **Invariant:** bytes are never copied, read or made here; a response is a list of [`Arc<Encoded>`](Encoded).
//! **Invariant:** nothing is queued. The pending changes are the difference between the last snapshot and the
//! resources that were sent, so a newer snapshot replaces an unsent older one and a slow reader costs nothing.
//! **Invariant:** every subscribe is answered at once; only changes wait for acknowledgements, and only for those of
//! resources that they refer to.
//! **Invariant:** a rejected version is not sent again, unless the client requests it by name.

#![deny(clippy::disallowed_methods)]

pub mod counters;
pub mod delta;
mod flight;
mod gate;
mod ledger;
pub mod message;
pub mod resource;
pub mod sotw;
pub mod stream;
pub mod subscription;
#[cfg(test)]
mod testing;
pub mod type_url;

pub use counters::Counters;
pub use message::{Nonce, Response};
pub use resource::{Encoded, Need, ResourceSet, Resources, Snapshot, Version};
pub use stream::{Event, Stream};
pub use subscription::Subscription;
pub use type_url::{Requested, TypeUrl};
