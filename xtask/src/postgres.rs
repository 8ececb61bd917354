//! Finds PostgreSQL for tests.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;

/// Programs that tests start. Both are in one package, but a client-only installation has neither.
const PROGRAMS: [&str; 2] = ["initdb", "postgres"];
/// Debian's folder of programs by version, which is not on `PATH`.
const DEBIAN: &str = "/usr/lib/postgresql";
/// With this set, tests that need PostgreSQL fail instead of being skipped.
const REQUIRE: &str = "KODIAK_REQUIRE_POSTGRES";

/// The programs of one PostgreSQL.
pub(crate) struct Postgres {
    folder: PathBuf,
}

impl Postgres {
    /// `None` when it is neither on `PATH` nor in Debian's folder.
    pub(crate) fn find() -> Option<Self> {
        let on_path = process::folder_on_path(PROGRAMS[0]).filter(|folder| has_programs(folder));
        on_path.or_else(|| newest_version(Path::new(DEBIAN))).map(|folder| Self { folder })
    }

    /// For CI, which has installed it.
    pub(crate) fn installed() -> Result<Self> {
        Self::find().context("PostgreSQL is not installed: put `initdb` and `postgres` on PATH")
    }

    /// Passes it to the tests that `command` starts, and makes it mandatory.
    pub(crate) fn prepare(&self, command: &mut Command) -> Result<()> {
        command.env("PATH", self.first_on_path()?).env(REQUIRE, "1");
        Ok(())
    }

    pub(crate) fn version(&self) -> Result<String> {
        let text = process::output(Command::new(self.folder.join("postgres")).arg("--version"))?;
        Ok(format!("{} in {}", text.trim(), self.folder.display()))
    }

    fn first_on_path(&self) -> Result<OsString> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.folder.clone()).chain(env::split_paths(&path));
        env::join_paths(folders).context("a folder of PATH holds a separator")
    }
}

fn has_programs(folder: &Path) -> bool {
    PROGRAMS.iter().all(|program| folder.join(program).is_file())
}

/// `<root>/<version>/bin` of the highest complete version.
fn newest_version(root: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(root).ok()?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let version: u32 = path.file_name()?.to_str()?.parse().ok()?;
        Some((version, path.join("bin")))
    });
    versions.filter(|(_, folder)| has_programs(folder)).max_by_key(|(version, _)| *version).map(|(_, folder)| folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_complete_version_is_taken() {
        let root = tempfile::tempdir().unwrap();
        for (version, programs) in [("9", &PROGRAMS[..]), ("15", &PROGRAMS[..]), ("17", &PROGRAMS[..1])] {
            let bin = root.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            for program in programs {
                fs::write(bin.join(program), "").unwrap();
            }
        }
        assert_eq!(newest_version(root.path()), Some(root.path().join("15/bin")));
        assert_eq!(newest_version(&root.path().join("nowhere")), None);
    }

    #[test]
    fn tests_find_its_programs_first() {
        let postgres = Postgres { folder: PathBuf::from("/opt/pg/bin") };
        let mut command = Command::new("true");
        postgres.prepare(&mut command).unwrap();
        let path = command.get_envs().find_map(|(key, value)| (key == "PATH").then_some(value?)).unwrap();
        assert!(path.to_string_lossy().starts_with("/opt/pg/bin"), "{path:?}");
        assert!(command.get_envs().any(|(key, value)| key == REQUIRE && value == Some("1".as_ref())));
    }
}
