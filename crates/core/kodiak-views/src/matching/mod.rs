//! Which proxies, and which of their inbounds, a policy selects; and which policy wins over which. The same for all
//! kinds of policies.

mod meta;
mod precedence;
mod select;
#[cfg(test)]
mod tests;

use kodiak_model::TargetRef;

pub use meta::{Meta, Origin, Role};
pub use precedence::precedence;
pub use select::{Selection, Shadow, select};

/// A policy as matching sees it, whatever its kind.
#[derive(Debug, Clone, Copy)]
pub struct Policy<'a> {
    pub meta: Meta<'a>,
    /// The `targetRef` at its top. The whole mesh when missing.
    pub target: Option<&'a TargetRef>,
}
