//! Unix socket for local administration. Its clients have administrator rights.
//!
//! Unlike a loopback port, web pages and proxies cannot reach it. Two checks restrict access: the mode of the file, and
//! the user of the client's process, which the accept loop gets from the kernel.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io,
    os::unix::{
        fs::{FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use kodiak_listen::Listener;
use rustix::process::geteuid;
use tokio::net::UnixListener;

use crate::config::ApiSocket;

const FILE_NAME: &str = "kodiak.sock";
const OWNER_ONLY: u32 = 0o600;
const ROOT: u32 = 0;

/// Bound socket. Dropping it removes its file.
pub(crate) struct LocalSocket {
    pub(crate) path: PathBuf,
    /// Locked while the socket is in use. Only the holder may replace the file.
    _lock: File,
}

/// Binds the socket if it is enabled. At the default path a failure is only a warning.
pub(crate) fn open(config: &ApiSocket, work_dir: &Path) -> anyhow::Result<Option<(LocalSocket, Listener)>> {
    if !config.enabled {
        return Ok(None);
    }
    let is_default = config.path.as_os_str().is_empty();
    let path = if is_default { work_dir.join(FILE_NAME) } else { config.path.clone() };
    match bind(&path) {
        Ok(bound) => Ok(Some(bound)),
        Err(error) if is_default => {
            let error = format!("{error:#}");
            tracing::warn!(path = %path.display(), error, "failed to create the socket for local administration: set another path with apiServer.socket.path");
            Ok(None)
        }
        Err(error) => Err(error.context("apiServer.socket.path")),
    }
}

fn bind(path: &Path) -> anyhow::Result<(LocalSocket, Listener)> {
    let lock = lock(path)?;
    remove_dead(path)?;
    let listener = UnixListener::bind(path).with_context(|| format!("cannot bind {}", path.display()))?;
    let socket = LocalSocket { path: path.to_owned(), _lock: lock };
    fs::set_permissions(path, Permissions::from_mode(OWNER_ONLY))
        .with_context(|| format!("cannot restrict {} to its owner", path.display()))?;
    Ok((socket, Listener::Unix { listener, uids: vec![geteuid().as_raw(), ROOT] }))
}

/// Lock against control planes that start concurrently: each would take the other's socket for a stale one.
fn lock(path: &Path) -> anyhow::Result<File> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let mut options = OpenOptions::new();
    let file = options.create(true).truncate(false).write(true).mode(OWNER_ONLY).open(&name);
    let file = file.with_context(|| format!("cannot open {}", name.display()))?;
    file.try_lock().with_context(|| format!("{} is in use by another control plane", path.display()))?;
    Ok(file)
}

/// Removes a stale socket. Fails for a socket that is in use, and for a file of another type.
fn remove_dead(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read the metadata of {}", path.display())),
        Ok(found) => anyhow::ensure!(found.file_type().is_socket(), "{} is not a socket", path.display()),
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the old socket {}", path.display()))
        }
        Ok(_) => anyhow::bail!("{} is in use by another process", path.display()),
        Err(error) => Err(error).with_context(|| format!("cannot check whether {} is in use", path.display())),
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove the socket");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: &Path) -> ApiSocket {
        ApiSocket { enabled: true, path: path.to_owned() }
    }

    fn error(path: &Path) -> String {
        format!("{:#}", open(&config(path), Path::new("/")).err().unwrap())
    }

    #[tokio::test]
    async fn socket_is_restricted_to_its_owner_and_removed_on_drop() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, _listener) = open(&ApiSocket::default(), folder.path()).unwrap().unwrap();
        assert_eq!(socket.path, folder.path().join("kodiak.sock"));
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o600);
        let path = socket.path.clone();
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn stale_socket_is_replaced_but_not_one_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (socket, listener) = open(&config(&path), folder.path()).unwrap().unwrap();
        assert!(error(&path).contains("in use by another control plane"));
        // A killed process leaves its file.
        fs::rename(&path, folder.path().join("kept")).unwrap();
        drop(socket);
        fs::rename(folder.path().join("kept"), &path).unwrap();
        assert!(error(&path).contains("in use by another process"), "the listener is still open");
        drop(listener);
        open(&config(&path), folder.path()).unwrap().unwrap();
    }

    #[tokio::test]
    async fn other_files_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();
        assert!(error(&path).contains("is not a socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::write(folder.path().join(FILE_NAME), "mine").unwrap();
        assert!(
            open(&ApiSocket::default(), folder.path()).unwrap().is_none(),
            "a failure at the default path is not fatal"
        );
    }

    #[test]
    fn socket_can_be_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let off = ApiSocket { enabled: false, ..ApiSocket::default() };
        assert!(open(&off, folder.path()).unwrap().is_none());
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
