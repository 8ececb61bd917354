//! Folder of the files that data sources of resources may reference.

use std::{fs, path::Path};

use anyhow::{Context as _, ensure};
use kodiak_catalog::FileSources;

use crate::config::General;

/// From the setting `general.dataSourceFolder`.
pub(crate) fn files(general: &General, work_dir: &Path) -> anyhow::Result<FileSources> {
    let folder = &general.data_source_folder;
    if folder.as_os_str().is_empty() {
        return Ok(FileSources::default());
    }
    let shown = folder.display();
    ensure!(folder.is_absolute(), "general.dataSourceFolder: {shown} must be an absolute path");
    let found = fs::canonicalize(folder).with_context(|| format!("general.dataSourceFolder: cannot read {shown}"))?;
    ensure!(found.is_dir(), "general.dataSourceFolder: {shown} is not a folder");
    let keys = fs::canonicalize(work_dir).with_context(|| format!("cannot read {}", work_dir.display()))?;
    ensure!(
        !keys.starts_with(&found) && !found.starts_with(&keys),
        "general.dataSourceFolder: {shown} and the working directory {} must not contain each other: the working directory has the private keys of the control plane",
        work_dir.display()
    );
    Ok(FileSources::below(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_must_not_contain_the_keys_of_the_control_plane() {
        let base = tempfile::tempdir().unwrap();
        let path = |name: &str| base.path().join(name);
        for name in ["work/inner", "certificates"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        std::os::unix::fs::symlink(path("work"), path("link")).unwrap();
        let with = |folder: &Path| {
            let general = General { data_source_folder: folder.to_owned(), ..General::default() };
            files(&general, &path("work"))
        };
        with(&path("certificates")).unwrap();
        with(Path::new("")).unwrap();
        for folder in [base.path().to_owned(), path("work"), path("work/inner"), path("link"), path("nowhere")] {
            with(&folder).unwrap_err();
        }
        with(Path::new("certificates")).unwrap_err();
    }
}
