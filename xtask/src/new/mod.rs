//! `cargo xtask new-policy` and `new-kind`: a complete folder to start from, and its registration.
//!
//! The folder compiles, passes tidy and has one field to replace.

pub(crate) mod kind;
mod name;
pub(crate) mod policy;
mod registration;
mod skeleton;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
