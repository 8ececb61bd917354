//! `cargo xtask new-policy` and `new-kind`: a complete folder to start from, and the lines that make it known.
//!
//! The folder compiles, passes tidy and has one field; what it is for is written by changing it.

pub(crate) mod kind;
mod name;
pub(crate) mod policy;
mod registration;
mod skeleton;
#[cfg(test)]
mod tests;

/// Where the folders of a family are, and the file with their `pub mod` lines and the `ALL` list.
struct Place {
    folder: &'static str,
    list: &'static str,
}

const POLICIES: Place =
    Place { folder: "crates/core/kodiak-policies/src", list: "crates/core/kodiak-policies/src/lib.rs" };
const KINDS: Place =
    Place { folder: "crates/core/kodiak-model/src/kinds", list: "crates/core/kodiak-model/src/kinds/mod.rs" };
const FAMILIES: [&Place; 2] = [&POLICIES, &KINDS];
