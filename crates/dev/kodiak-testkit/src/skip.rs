//! Skips a test where the machine lacks a requirement: with a message, and never in CI.

use std::env;
use std::io::{self, Write as _};

/// A requirement of tests that not every machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Envoy,
    Postgres,
    Spire,
    /// Root, network namespaces, and the tools that create and change them.
    Root,
    /// Any other program.
    Program,
}

impl Need {
    /// With this variable set to `1`, a test without the requirement fails instead of being skipped. `cargo xtask ci`
    /// sets all.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Envoy => "KODIAK_REQUIRE_ENVOY",
            Self::Postgres => "KODIAK_REQUIRE_POSTGRES",
            Self::Spire => "KODIAK_REQUIRE_SPIRE",
            Self::Root => "KODIAK_REQUIRE_ROOT",
            Self::Program => "KODIAK_REQUIRE_PROGRAMS",
        }
    }
}

/// Prints that a test is skipped, and why.
///
/// # Panics
///
/// When the requirement is mandatory.
pub fn skip(need: Need, why: &str) {
    let variable = need.variable();
    let required = env::var(variable).is_ok_and(|value| value == "1");
    assert!(!required, "{variable}=1, but {why}");
    // Bypasses the test harness, which hides the output of passing tests.
    writeln!(io::stderr(), "SKIPPED, NOT TESTED: {why}").expect("standard error is open");
}
