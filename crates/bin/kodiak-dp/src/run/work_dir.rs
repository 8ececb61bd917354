//! The working directory of a proxy: the bootstrap, and the sockets.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::RunError;

const BOOTSTRAP: &str = "bootstrap.yaml";
/// Names of sockets, as control planes write them into the bootstrap.
const ADMIN: &str = "kuma-envoy-admin.sock";
const DYNAMIC_CONFIG: &str = "kuma-mesh-metric-config.sock";
const ACCESS_LOGS: &str = "kuma-al.sock";
/// Control planes truncate the path of a socket to this, before `.sock`: systems allow little more than a hundred bytes.
const LONGEST_SOCKET: usize = 98;

/// Removed on drop: a temporary folder as a whole, or our files in the user's folder.
#[derive(Debug)]
pub(super) struct WorkDir {
    folder: PathBuf,
    sockets: PathBuf,
    /// Another name of the pipe.
    link: Option<PathBuf>,
    /// Lock against a second proxy in the folder.
    _lock: File,
    _temporary: Option<TempDir>,
}

impl WorkDir {
    pub(super) fn new(wanted: Option<&Path>) -> Result<Self, RunError> {
        let Some(wanted) = wanted else {
            let temporary = temporary()?;
            return Self::open(temporary.path().to_owned(), temporary.path().to_owned(), Some(temporary));
        };
        let unusable = |source| RunError::WorkDir { folder: wanted.to_owned(), source };
        let folder = std::path::absolute(wanted).map_err(unusable)?;
        DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(unusable)?;
        if sockets_fit(&folder) {
            return Self::open(folder.clone(), folder, None);
        }
        let temporary = temporary()?;
        tracing::info!(work_dir = %folder.display(), sockets = %temporary.path().display(),
            "The path of the work folder is too long for sockets; they are elsewhere.");
        Self::open(folder, temporary.path().to_owned(), Some(temporary))
    }

    fn open(folder: PathBuf, sockets: PathBuf, temporary: Option<TempDir>) -> Result<Self, RunError> {
        let unusable = |source| RunError::WorkDir { folder: folder.clone(), source };
        let lock = File::open(&folder).map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => (),
            Err(fs::TryLockError::WouldBlock) => return Err(RunError::WorkDirInUse { folder }),
            // Some network file systems have no locks.
            Err(fs::TryLockError::Error(error)) => tracing::debug!(%error, "failed to lock the work folder"),
        }
        let this = Self { folder, sockets, link: None, _lock: lock, _temporary: temporary };
        // Left by a process that was killed.
        this.remove_ours();
        Ok(this)
    }

    /// Envoy runs here, and its sockets are here.
    pub(super) fn for_sockets(&self) -> &Path {
        &self.sockets
    }

    pub(super) fn admin_socket(&self) -> PathBuf {
        self.sockets.join(ADMIN)
    }

    pub(super) fn dynamic_config_socket(&self) -> PathBuf {
        self.sockets.join(DYNAMIC_CONFIG)
    }

    pub(super) fn access_log_pipe(&self) -> PathBuf {
        self.sockets.join(ACCESS_LOGS)
    }

    /// Links the name under which control planes of Kuma expect the pipe. Without it Envoy would create a file there, which
    /// grows.
    pub(super) fn link_access_logs(&mut self, mesh: &str, name: &str) -> Result<(), RunError> {
        let path = format!("./kuma-al-{name}-{mesh}");
        let file = format!("{}.sock", &path[..path.floor_char_boundary(LONGEST_SOCKET)]);
        let link = self.sockets.join(file);
        let _ = fs::remove_file(&link);
        symlink(ACCESS_LOGS, &link).map_err(|source| RunError::WorkDir { folder: link.clone(), source })?;
        self.link = Some(link);
        Ok(())
    }

    /// Readable by its owner alone, because it has the token.
    pub(super) fn write_bootstrap(&self, text: &[u8]) -> Result<PathBuf, RunError> {
        let file = self.folder.join(BOOTSTRAP);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600).open(&file)?.write_all(text)
        };
        write().map_err(|source| RunError::WorkDir { folder: self.folder.clone(), source })?;
        Ok(file)
    }

    fn remove_ours(&self) {
        let ours =
            [self.folder.join(BOOTSTRAP), self.admin_socket(), self.dynamic_config_socket(), self.access_log_pipe()];
        for file in ours.iter().chain(&self.link) {
            // A missing file need not be removed.
            let _ = fs::remove_file(file);
        }
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        self.remove_ours();
    }
}

/// Folder for temporary folders, if the paths of sockets are short enough there.
fn temporary() -> Result<TempDir, RunError> {
    let usual = std::env::temp_dir();
    // As long as a generated name.
    let parent = if sockets_fit(&usual.join("kodiak-dp-123456")) { usual } else { PathBuf::from("/tmp") };
    let private = Permissions::from_mode(0o700);
    let made = tempfile::Builder::new().prefix("kodiak-dp-").permissions(private).tempdir_in(&parent);
    made.map_err(|source| RunError::WorkDir { folder: parent, source })
}

fn sockets_fit(folder: &Path) -> bool {
    let longest = folder.join(DYNAMIC_CONFIG);
    longest.with_extension("").as_os_str().len() <= LONGEST_SOCKET
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_folder_is_private_and_removed() {
        let work_dir = WorkDir::new(None).unwrap();
        let folder = work_dir.for_sockets().to_owned();
        let bootstrap = work_dir.write_bootstrap(b"node: {}").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&folder), mode(&bootstrap)), (0o700, 0o600));
        assert_eq!(bootstrap, folder.join("bootstrap.yaml"));
        drop(work_dir);
        assert!(!folder.exists());
    }

    #[test]
    fn folder_of_the_user_stays_without_our_files() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("made/here");
        let work_dir = WorkDir::new(Some(&folder)).unwrap();
        fs::write(folder.join("theirs"), "").unwrap();
        let bootstrap = work_dir.write_bootstrap(b"").unwrap();
        assert!(matches!(WorkDir::new(Some(&folder)), Err(RunError::WorkDirInUse { .. })));
        drop(work_dir);
        assert!(!bootstrap.exists() && folder.join("theirs").exists());
        // Files of a killed process are no obstacle.
        fs::write(&bootstrap, "old").unwrap();
        WorkDir::new(Some(&folder)).unwrap().write_bootstrap(b"new").unwrap();
    }

    #[test]
    fn sockets_are_in_another_folder_when_the_path_is_too_long() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("long".repeat(25));
        let work_dir = WorkDir::new(Some(&folder)).unwrap();
        assert!(sockets_fit(work_dir.for_sockets()), "{work_dir:?}");
        let sockets = work_dir.for_sockets().to_owned();
        assert!(work_dir.write_bootstrap(b"").unwrap().starts_with(&folder));
        drop(work_dir);
        assert!(folder.exists() && !sockets.exists());
    }
}
