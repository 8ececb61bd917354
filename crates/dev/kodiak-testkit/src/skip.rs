//! Skipping a test where the machine lacks something that it starts: loudly, and never in CI.

use std::env;
use std::io::{self, Write as _};

/// Something that tests start or use and that not every machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    Envoy,
    Postgres,
    /// Root, network namespaces, and the tools that make and change them.
    Root,
    /// Any other program.
    Program,
}

impl Need {
    /// With this variable set to `1`, a test that lacks it fails instead of being skipped. `cargo xtask ci` sets all.
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Envoy => "KODIAK_REQUIRE_ENVOY",
            Self::Postgres => "KODIAK_REQUIRE_POSTGRES",
            Self::Root => "KODIAK_REQUIRE_ROOT",
            Self::Program => "KODIAK_REQUIRE_PROGRAMS",
        }
    }
}

/// Says that a test is skipped, and why.
///
/// # Panics
///
/// Where the machine must have it.
pub fn skip(need: Need, why: &str) {
    let variable = need.variable();
    let required = env::var(variable).is_ok_and(|value| value == "1");
    assert!(!required, "{variable}=1, but {why}");
    // Past the test harness, which hides what a test prints that passes.
    writeln!(io::stderr(), "SKIPPED, NOT TESTED: {why}").expect("standard error is open");
}
