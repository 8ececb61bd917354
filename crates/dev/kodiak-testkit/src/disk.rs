//! A small file system that a test can fill, empty and make read-only. Needs root.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, ensure};
use tempfile::TempDir;

use crate::skip::{Need, skip};

/// In memory; unmounted on drop.
#[derive(Debug)]
pub struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    /// `None`, with a message, where this process may not mount.
    pub fn mount(mebibytes: u32) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("kodiak-disk-").tempdir().expect("a folder can be made");
        let size = format!("size={mebibytes}m,mode=777");
        match run(Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path())) {
            Ok(()) => Some(Self { folder }),
            Err(error) => {
                skip(Need::Root, &format!("this process may not mount a file system: {error:#}"));
                None
            }
        }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes until the file system is full.
    pub fn fill(&self) -> Result<()> {
        let mut filler = File::create(self.filler())?;
        let mut size = 64 << 10;
        while size > 0 {
            match filler.write(&vec![0; size]) {
                Ok(written) if written > 0 => (),
                Ok(_) | Err(_) => size /= 2,
            }
        }
        Ok(())
    }

    pub fn empty(&self) -> Result<()> {
        Ok(fs::remove_file(self.filler())?)
    }

    /// Fails while a file on it is open for writing.
    pub fn make_read_only(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "remount,ro"]).arg(self.path()))
    }

    pub fn make_writable(&self) -> Result<()> {
        run(Command::new("mount").args(["-o", "remount,rw"]).arg(self.path()))
    }

    fn filler(&self) -> PathBuf {
        self.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Also while a failed test still uses it.
        drop(run(Command::new("umount").arg("--lazy").arg(self.folder.path())));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
