//! Runs the cases of each suite.

pub(crate) mod api;
pub(crate) mod context;
pub(crate) mod envoyconfig;
mod feed;
pub(crate) mod matchers;
mod printed;
pub(crate) mod rules;
pub(crate) mod validate;
