//! Where the folders of kinds are. They all have the same shape; tidy checks it, and `new-policy` and `new-kind` write it.

/// Folders that lie beside each other, and the file that makes them known.
pub(crate) struct Family {
    pub(crate) folder: &'static str,
    /// Holds a `pub mod` line and an entry of `ALL` for each.
    pub(crate) list: &'static str,
}

pub(crate) const POLICIES: Family =
    Family { folder: "crates/core/kodiak-policies/src", list: "crates/core/kodiak-policies/src/lib.rs" };

/// The kinds that are not policies.
pub(crate) const KINDS: Family =
    Family { folder: "crates/core/kodiak-model/src/kinds", list: "crates/core/kodiak-model/src/kinds/mod.rs" };

pub(crate) const ALL: [&Family; 2] = [&POLICIES, &KINDS];
