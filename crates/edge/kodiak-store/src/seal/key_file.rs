//! The key file: created atomically, and readable by its owner only.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::error::StoreError;

pub(super) fn load_or_create(path: &Path) -> Result<[u8; 32], StoreError> {
    let found = match load(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(path).and_then(|()| load(path)),
        found => found,
    };
    found.map_err(|error| StoreError::file(path, error))
}

pub(super) fn load(path: &Path) -> io::Result<[u8; 32]> {
    let text = fs::read_to_string(path)?;
    let mode = fs::metadata(path)?.permissions().mode();
    if mode & 0o077 != 0 {
        tracing::warn!(path = %path.display(), mode = format!("{:o}", mode & 0o777), "seal key file is readable by other users");
    }
    parse(&text)
}

pub(super) fn parse(text: &str) -> io::Result<[u8; 32]> {
    let malformed = || io::Error::new(io::ErrorKind::InvalidData, "it does not hold 32 bytes in base64");
    let bytes = STANDARD.decode(text.trim()).map_err(|_| malformed())?;
    bytes.try_into().map_err(|_| malformed())
}

/// The key is written under another name and gets its own only when it is on the disk. A link, unlike a rename, does
/// not replace a key that another process created in the meantime.
fn create(path: &Path) -> io::Result<()> {
    let mut key = [0; 32];
    rand::fill(&mut key).map_err(|_| io::Error::other("no randomness"))?;
    let mut tag = [0; 8];
    rand::fill(&mut tag).map_err(|_| io::Error::other("no randomness"))?;

    let temporary = path.with_extension(format!("{:016x}", u64::from_ne_bytes(tag)));
    let linked = write_durably(&temporary, &STANDARD.encode(key)).and_then(|()| fs::hard_link(&temporary, path));
    fs::remove_file(&temporary)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => (),
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn key_is_32_bytes_in_base64() {
        assert_eq!(parse(&format!(" {}\n", STANDARD.encode([7; 32]))).unwrap(), [7; 32]);
        for malformed in ["", "not base64", &STANDARD.encode([7; 31])] {
            assert!(parse(malformed).is_err(), "{malformed:?}");
        }
    }

    #[test]
    fn key_file_is_created_once_and_readable_only_by_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        let made: Vec<_> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| load_or_create(&path).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });

        assert!(made.iter().all(|key| *key == made[0] && *key != [0; 32]));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn damaged_key_file_is_rejected_and_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("seal.key");
        fs::write(&path, "c2hvcnQ=").unwrap();
        assert!(matches!(load_or_create(&path), Err(StoreError::File { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "c2hvcnQ=");
    }
}
