//! The Envoy program: finding it, installing it, and its version.

mod find;
mod install;
mod pin;
mod progress;
mod version;

#[cfg(test)]
mod testing;

pub use find::{Environment, NotFound, VARIABLE, cache_folder, find};
pub use install::{InstallError, PYTHON, install};
pub use version::{OLDEST, PINNED, Version, VersionError};

/// The file name of the program, wherever it is.
const PROGRAM: &str = "envoy";

/// Makes Python take no modules from the current folder, where any file may be named like one of its own.
const ISOLATED: &str = "-I";
