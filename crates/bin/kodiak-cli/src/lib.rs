//! The command line of Kodiak: commands that talk to a control plane through `kodiak-client`, or work on files.
//!
//! In: arguments that clap has parsed. Out: text on a [`Terminal`](kodiak_terminal::Terminal) and an exit code. The binary
//! `kodiak` adds the commands that need the control plane, its engine or its store; [`documents::FileArgs`] is there for
//! those of them that read files. Start at `session.rs` and `commands/`.
//!
//! **Invariant:** does not depend on the control plane, the engine or the store: neither recompiles the other.
//! **Invariant:** nothing is sent when anything in the files is wrong.

#![cfg_attr(test, allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them"))]

pub mod commands;
mod config_file;
pub mod documents;
pub mod exit;
mod global;
mod identities;
mod private_file;
mod report;
mod session;

pub use global::GlobalArgs;
pub use session::Session;
