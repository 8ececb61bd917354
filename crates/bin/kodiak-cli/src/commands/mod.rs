//! Commands, one file or folder each, with their arguments and help.

pub mod apply;
pub mod completion;
pub mod config;
pub mod delete;
pub mod diff;
pub mod dp;
mod elsewhere;
pub mod export;
pub mod generate;
pub mod get;
pub mod graph;
pub mod inspect;
pub mod install;
pub mod migrate;
pub mod permissions;
pub mod reachability;
pub mod validate;
pub mod version;
pub mod who_am_i;
pub mod why;
