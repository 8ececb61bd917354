//! What is in force at one inbound.

/// Whom an inbound lets in. Nobody by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Permissions {}
