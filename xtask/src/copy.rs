//! Copies folders.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Copies a file, or a folder with everything in it.
pub(crate) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to).with_context(|| format!("cannot create {}", to.display()))?;
        for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
            let name = entry?.file_name();
            copy_all(&from.join(&name), &to.join(&name))?;
        }
    } else {
        fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    }
    Ok(())
}
