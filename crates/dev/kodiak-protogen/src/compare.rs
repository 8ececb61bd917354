//! Compares committed files with the generator's output.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::{CODE, DESCRIPTORS};

pub(crate) fn same(committed: &Path, generated: &Path) -> Result<()> {
    let (committed, generated) = (read(committed)?, read(generated)?);
    let differs = |name: &&String| committed.get(*name) != generated.get(*name);
    if let Some(name) = committed.keys().chain(generated.keys()).find(differs) {
        bail!(
            "{name} of kodiak-envoy differs from the generator's output: run `cargo xtask codegen` and commit the result"
        );
    }
    Ok(())
}

/// All generated files of a crate, by name.
fn read(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let contents = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
    let mut files = BTreeMap::from([(DESCRIPTORS.to_owned(), contents(&folder.join(DESCRIPTORS))?)]);
    let code = folder.join(CODE);
    for entry in code.read_dir().with_context(|| format!("cannot read {}", code.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        files.insert(name, contents(&path)?);
    }
    Ok(files)
}
