//! Finds the folders of kinds in the source tree.

use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) fn of_kinds() -> Vec<PathBuf> {
    // Tests run in the folder of their crate.
    let crates = Path::new("..");
    let mut folders = subfolders(&crates.join("kodiak-model/src/kinds"));
    folders.extend(subfolders(&crates.join("kodiak-policies/src")));
    folders.sort();
    folders
}

/// Files of a folder with this suffix, sorted.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        entries(folder).into_iter().filter(|path| path.to_string_lossy().ends_with(ending)).collect();
    files.sort();
    files
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    entries(folder).into_iter().filter(|path| path.join("mod.rs").exists()).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default()
}
