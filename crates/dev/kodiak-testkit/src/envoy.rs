//! A real Envoy for tests: the pinned version, found or installed once.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::{Context as _, Result};
use kodiak_dp::envoy::{Environment, PINNED, PYTHON, Version, cache_folder, find, install};

use crate::skip::{Need, skip};

/// Path of the program, for all tests of this process; `None`, with a message, where it is not available.
pub fn envoy() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(find_or_skip).as_deref()
}

fn find_or_skip() -> Option<PathBuf> {
    match find_or_install(&Environment::of_this_process()) {
        Ok(program) => Some(program),
        Err(error) => {
            skip(Need::Envoy, &format!("there is no Envoy {PINNED}: {error:#}"));
            None
        }
    }
}

fn find_or_install(environment: &Environment) -> Result<PathBuf> {
    let found = find(None, environment).ok();
    if let Some(program) = found.filter(|program| Version::of(program).is_ok_and(|version| version == PINNED)) {
        return Ok(program);
    }
    let folder = cache_folder(environment).context("neither XDG_CACHE_HOME nor HOME says where the cache is")?;
    Ok(install(&folder, OsStr::new(PYTHON), &mut |_| ())?)
}
