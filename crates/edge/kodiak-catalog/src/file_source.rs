//! File data sources. The files are on the control plane's host and their paths come from users, so they are read only
//! below one configured folder.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

/// Far above the size of certificates and keys.
const MAX_FILE: u64 = 1024 * 1024;

const SETTING: &str = "general.dataSourceFolder";

/// Where files may be read. Nowhere by default.
#[derive(Debug, Clone, Default)]
pub struct FileSources(Option<Arc<Path>>);

impl FileSources {
    /// Files below this folder, which is an absolute path.
    pub fn below(folder: &Path) -> Self {
        Self(Some(folder.into()))
    }

    /// Whether the path may be read, by its text alone: rejected paths are not looked up.
    pub fn check(&self, path: &str) -> Result<(), String> {
        self.allowed(path).map(drop)
    }

    /// Content of a file. Missing files and links to the outside have the same error, so that users cannot tell them
    /// apart.
    pub(crate) fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let (folder, path) = self.allowed(path)?;
        read(folder, path).map_err(|_| {
            let path = path.display();
            format!("could not load data: {path} is not a readable file of at most {MAX_FILE} bytes below the folder of the setting {SETTING}")
        })
    }

    /// Changes when the content may have changed.
    pub fn stamp(&self, path: &str) -> Option<(SystemTime, u64)> {
        let (folder, path) = self.allowed(path).ok()?;
        let found = fs::metadata(resolved(folder, path).ok()?).ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    fn allowed<'a>(&'a self, path: &'a str) -> Result<(&'a Path, &'a Path), String> {
        let Some(folder) = &self.0 else {
            return Err(format!(
                "file data sources are disabled; use a secret, or let an operator set the folder of such files with the setting {SETTING}"
            ));
        };
        let plain = !path.split('/').any(|part| part == "." || part == "..") && !path.contains('\0');
        let below = Path::new(path).starts_with(folder) && Path::new(path) != &**folder;
        if plain && below {
            Ok((folder, Path::new(path)))
        } else {
            Err(format!(
                "must be the absolute path of a file below the folder of the setting {SETTING}, without . and .."
            ))
        }
    }
}

/// The path with all symbolic links resolved, if it is below the folder.
fn resolved(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let (folder, path) = (fs::canonicalize(folder)?, fs::canonicalize(path)?);
    if path.starts_with(folder) { Ok(path) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Devices and pipes are not opened, and huge files are not read.
fn read(folder: &Path, path: &Path) -> io::Result<Vec<u8>> {
    let path = resolved(folder, path)?;
    if !fs::symlink_metadata(&path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    let fits = u64::try_from(bytes.len()).is_ok_and(|length| length <= MAX_FILE);
    if fits { Ok(bytes) } else { Err(io::ErrorKind::FileTooLarge.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bed {
        base: tempfile::TempDir,
        files: FileSources,
    }

    impl Bed {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            let path = |name: &str| base.path().join(name);
            fs::create_dir_all(path("in/sub")).unwrap();
            fs::write(path("in/sub/key"), "inside").unwrap();
            fs::write(path("outside"), "outside").unwrap();
            fs::create_dir_all(path("in-too")).unwrap();
            fs::write(path("in-too/key"), "outside").unwrap();
            Self { files: FileSources::below(&path("in")), base }
        }

        fn path(&self, path: &str) -> String {
            self.base.path().join(path).to_str().unwrap().to_owned()
        }

        fn read(&self, path: &str) -> Result<String, String> {
            self.files.read(&self.path(path)).map(|bytes| String::from_utf8(bytes).unwrap())
        }
    }

    #[test]
    fn files_are_disabled_by_default() {
        let bed = Bed::new();
        let error = FileSources::default().read(&bed.path("in/sub/key")).unwrap_err();
        assert!(error.contains("general.dataSourceFolder"), "{error}");
        assert_eq!(FileSources::default().read("/does/not/exist").unwrap_err(), error, "nothing is looked up");
    }

    #[test]
    fn reads_only_files_below_the_folder() {
        let bed = Bed::new();
        assert_eq!(bed.read("in/sub/key").unwrap(), "inside");
        let refused = bed.files.check(&bed.path("outside")).unwrap_err();
        let paths = ["outside", "nowhere", "in", "in-too/key", "in/../outside", "in/./sub/key", "in/sub/../../outside"];
        for path in paths {
            assert_eq!(bed.read(path).unwrap_err(), refused, "{path}");
        }
        for path in ["in/sub/key", "sub/key", "", "/etc/passwd", "/etc/does-not-exist"] {
            assert_eq!(bed.files.read(path).unwrap_err(), refused, "{path}");
        }
    }

    #[test]
    fn links_to_the_outside_look_like_missing_files() {
        let bed = Bed::new();
        let link = |from: &str, to: &str| std::os::unix::fs::symlink(bed.path(to), bed.path(from)).unwrap();
        link("in/escape", "outside");
        link("in/folder", "in-too");
        link("in/nowhere", "does-not-exist");
        link("in/inside", "in/sub/key");
        assert_eq!(bed.read("in/inside").unwrap(), "inside");
        let text = |path: &str| bed.read(path).unwrap_err().replace(&bed.path(path), "*");
        let missing = text("in/missing");
        for path in ["in/escape", "in/folder/key", "in/nowhere", "in/sub"] {
            assert_eq!(text(path), missing, "{path}");
            assert_eq!(bed.files.stamp(&bed.path(path)).is_some(), path == "in/sub", "{path}");
        }
    }

    #[test]
    fn rejects_large_files() {
        let bed = Bed::new();
        let file = File::create(bed.path("in/large")).unwrap();
        file.set_len(MAX_FILE + 1).unwrap();
        bed.read("in/large").unwrap_err();
        file.set_len(MAX_FILE).unwrap();
        bed.read("in/large").unwrap();
    }
}
