//! Policies that nobody follows, and what they say of it.
