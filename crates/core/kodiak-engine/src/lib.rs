//! Computes the configuration of every proxy, incrementally from changes.
//!
//! ```text
//!  EngineChange --> Mesh: services, policies, settings --dirty--> classes: shared outbounds -----+
//!                                                --dirty--> proxies: own resources --------+--> Snapshot
//! ```
//!
//! The configuration of a proxy consists of the resources of its class and its own. A class has all proxies that reach
//! the same destinations at the same addresses, so that a change of a service is built once per class and not once per
//! proxy. Every resource is built once for each distinct input ([`kodiak_xds::input`]) and shared; start reading at
//! [`engine`].
//!
//! **Invariant:** pure: the clock, keys and connections are arguments.
//! **Invariant:** incremental equals from scratch: snapshots depend on the current state, not on the changes before it. The
//! one exception are resources that take part in a fault: they depend on the last good state, too (`fallback`).
//! **Invariant:** an [`Outcome`] has a proxy only if its snapshot or its faults changed.
//! **Invariant:** a published snapshot has no faults. A resource that fails validation stays at a version without them, or
//! is left out; all others are sent, and permissions of inbound listeners are always the current ones.

#![deny(clippy::disallowed_methods)]

mod acknowledged;
mod assemble;
mod cache;
mod change;
mod class;
mod class_key;
mod classes;
mod collections;
pub mod difference;
mod dirty_set;
pub mod engine;
mod entries;
mod evidence;
mod fallback;
mod history;
mod hostnames;
mod identity;
mod in_effect;
mod leaf;
mod mesh;
mod metrics;
mod objects;
pub mod offline;
pub mod patch;
mod patched;
mod permitted;
mod plan;
mod presence;
mod proxy;
mod proxy_facts;
pub mod redacted;
mod rules;
mod services;
mod stored;
mod target;
mod view;

pub use acknowledged::{AcknowledgedState, PermissionsToken};
pub use change::EngineChange;
pub use engine::{Engine, EngineSettings, Issued, Outcome, Stats, Updated};
pub use identity::{ADMIN_CLIENT_NAME, ClientPair, Identities, Leaf, LeafIssuer, LeafRequest};
pub use proxy::admin_port;
