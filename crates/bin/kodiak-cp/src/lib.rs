//! The control plane: configuration, wiring, start and shutdown.
//!
//! **Invariant:** no decisions about resources: it connects the parts and supervises them.
//! **Invariant:** every task has a name, an owner and an end; see [`tasks`].

mod addresses;
mod admin;
mod apart;
mod certificate;
pub mod config;
mod data_sources;
mod defaults;
mod descriptors;
mod diagnostics;
mod diff;
mod faults;
mod guarded_engine;
mod identity;
mod inspect;
mod kuma_settings;
mod listeners;
mod machine;
mod offline;
mod panics;
mod proxies;
mod socket;
mod start;
mod stored_identities;
mod tasks;
mod writer;

pub use config::Config;
pub use faults::{EngineFault, Faults};
pub use offline::Offline;
pub use start::{ControlPlane, run, run_with};
pub use stored_identities::StoredIdentities;
