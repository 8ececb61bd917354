//! The Unix socket for local administration: its peers are administrators.
//!
//! Unlike a port on loopback, no web page and no proxy can be made to reach it. Two things keep others out: the mode of
//! the file, and the user of the process at the other end, which the accept loop asks the kernel for.

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

/// A socket that is bound. Dropping it removes its file.
pub(crate) struct LocalSocket {
    pub(crate) path: PathBuf,
    /// Held as long as the socket is in use: its holder may replace the file.
    _lock: File,
}

/// Binds the socket, if it is wanted. One that is in the default place and cannot be made is only warned of.
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
            tracing::warn!(path = %path.display(), error, "no socket for local administration; choose another place with apiServer.socket.path");
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

/// Two control planes that start at the same moment would each take the other's socket for a dead one.
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

/// Removes the socket of a process that is no more. One that answers, and a file that is no socket, are left alone.
fn remove_dead(path: &Path) -> anyhow::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot look at {}", path.display())),
        Ok(found) => anyhow::ensure!(found.file_type().is_socket(), "{} is no socket", path.display()),
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).with_context(|| format!("cannot remove the old socket {}", path.display()))
        }
        Ok(_) => anyhow::bail!("{} is in use by another process", path.display()),
        Err(error) => Err(error).with_context(|| format!("cannot tell whether {} is in use", path.display())),
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
    async fn only_its_owner_may_open_it_and_it_is_removed_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (socket, _listener) = open(&ApiSocket::default(), folder.path()).unwrap().unwrap();
        assert_eq!(socket.path, folder.path().join("kodiak.sock"));
        assert_eq!(fs::metadata(&socket.path).unwrap().permissions().mode() & 0o777, 0o600);
        let path = socket.path.clone();
        drop(socket);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_never_replaced_and_a_dead_one_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let (socket, listener) = open(&config(&path), folder.path()).unwrap().unwrap();
        assert!(error(&path).contains("in use by another control plane"));
        // Killed, it leaves its file behind.
        fs::rename(&path, folder.path().join("kept")).unwrap();
        drop(socket);
        fs::rename(folder.path().join("kept"), &path).unwrap();
        assert!(error(&path).contains("in use by another process"), "somebody still listens");
        drop(listener);
        open(&config(&path), folder.path()).unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        fs::write(&path, "mine").unwrap();
        assert!(error(&path).contains("is no socket"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "mine");
        fs::write(folder.path().join(FILE_NAME), "mine").unwrap();
        assert!(open(&ApiSocket::default(), folder.path()).unwrap().is_none(), "the default place is not worth an end");
    }

    #[test]
    fn it_can_be_turned_off() {
        let folder = tempfile::tempdir().unwrap();
        let off = ApiSocket { enabled: false, ..ApiSocket::default() };
        assert!(open(&off, folder.path()).unwrap().is_none());
        assert!(fs::read_dir(folder.path()).unwrap().next().is_none());
    }
}
