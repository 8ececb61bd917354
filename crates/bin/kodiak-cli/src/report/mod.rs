//! Human-readable output: findings in files, warnings, tables.

mod age;
mod columns;
pub(crate) mod insights;
mod output;
mod policy;
mod snippet;
mod status;
mod warnings;

pub(crate) use age::until;
pub(crate) use columns::{Layout, TableOpts};
pub(crate) use output::{Output, count};
pub(crate) use policy::{reason as policy_reason, short_reason, state as policy_state, target as policy_target};
pub(crate) use snippet::findings;
pub(crate) use status::{of_dataplane as dataplane_status, versions as dataplane_versions};
pub(crate) use warnings::Warnings;
