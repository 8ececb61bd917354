//! Where a control plane keeps its files while it is measured.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;

/// A folder that is gone when the measuring is over.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn make() -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("kodiak-bench-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
