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
pub(crate) mod trial;
