//! The one table of kinds.
//!
//! **Invariant:** whoever loops over kinds (REST, the command, stores, OpenAPI) uses [`kinds`], and nothing else lists them.

#![deny(clippy::disallowed_methods)]

use std::sync::LazyLock;

use kodiak_model::{Draft, Problems};
pub use kodiak_model::{Kind, Kinds};
use serde_json::Value;

static KINDS: LazyLock<Kinds> =
    LazyLock::new(|| Kinds::new(kodiak_model::kinds::ALL.iter().chain(kodiak_policies::ALL).copied()));

pub fn kinds() -> &'static Kinds {
    &KINDS
}

/// The policies that change what proxies get, by the names of their kinds. The others are stored and checked only.
pub fn in_force() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> =
        LazyLock::new(|| kodiak_policies::in_force().iter().map(|policy| policy.kind().name).collect());
    &NAMES
}

/// Splits a document into its envelope and its spec, whatever its kind.
pub fn draft(document: Value) -> Result<Draft, Problems> {
    Draft::from_value(document, |name| kinds().by_name(name).map(|kind| kind.shape))
}
