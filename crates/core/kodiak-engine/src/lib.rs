//! The mesh as proxies see it, kept up to date by changes.
//!
//! ```text
//!  Change --> Mesh: services, policies, settings --dirty--> classes: what callers share --+
//!                                                --dirty--> proxies: what each has alone --+--> Snapshot
//! ```
//!
//! A proxy's configuration is what its class has, plus its own. A class is all proxies that see the same services at the
//! same addresses, so a service that changes is built once for each class and not once for each proxy. Every resource is
//! made once for each distinct input ([`kodiak_xds::input`]) and shared; start reading at [`engine`].
//!
//! **Invariant:** pure: the clock, keys and connections come in as arguments.
//! **Invariant:** what comes out depends on what is, not on how it came to be: the same as from scratch.
//! **Invariant:** equal means silent: a proxy is named in an [`Outcome`] only when its resources differ.
//! **Invariant:** a set with a fault is not published; the last good one stays.

#![deny(clippy::disallowed_methods)]

mod cache;
mod change;
mod class;
mod class_key;
mod classes;
mod collections;
pub mod difference;
pub mod engine;
mod entries;
pub mod identity;
mod mesh;
mod objects;
pub mod offline;
pub mod patch;
mod plan;
mod proxy;
mod rules;
mod services;
pub mod shown;
mod stored;
mod target;
mod view;

pub use change::Change;
pub use engine::{Engine, Issued, Outcome, Settings, Stats, Updated};
pub use identity::{ADMIN_CLIENT_NAME, Identities, Leaf, LeafRequest};
pub use proxy::admin_port;
