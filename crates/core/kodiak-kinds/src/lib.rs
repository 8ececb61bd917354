//! The single table of kinds.
//!
//! **Invariant:** everything that iterates over kinds (REST, the CLI, stores, OpenAPI) uses [`kinds`], and nothing else
//! lists them.

#![deny(clippy::disallowed_methods)]

mod legacy;

use std::sync::LazyLock;

use kodiak_model::{Draft, Problems};
pub use kodiak_model::{Kind, Kinds};
use serde_json::Value;

pub use legacy::{LegacyKind, legacy_kinds};

static KINDS: LazyLock<Kinds> =
    LazyLock::new(|| Kinds::new(kodiak_model::kinds::ALL.iter().chain(kodiak_policies::ALL).copied()));

pub fn kinds() -> &'static Kinds {
    &KINDS
}

pub use kodiak_policies::needs_mtls;

/// Kinds of the policies that affect proxies. The others are only stored and validated.
pub fn in_force() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| kodiak_policies::in_force().iter().map(|policy| policy.kind().name).collect());
    &NAMES
}

/// Splits a document into its envelope and its spec, for any kind.
pub fn draft(document: Value) -> Result<Draft, Problems> {
    Draft::from_value(document, |name| kinds().by_name(name).map(|kind| kind.shape))
}
