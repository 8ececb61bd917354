//! Which Envoy it is: asked of the program itself, and compared with what we need.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// The version that we install, and that the tests run.
pub const PINNED: Version = Version { major: 1, minor: 40, patch: 0 };
/// The oldest that takes what we configure.
pub const OLDEST: Version = Version { major: 1, minor: 30, patch: 0 };

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    pub major: u32,
    pub minor: u32,
    pub patch: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    #[error("cannot run {}", program.display())]
    Run { program: PathBuf, source: io::Error },
    #[error("`{} --version` failed ({status})", program.display())]
    Failed { program: PathBuf, status: ExitStatus },
    #[error("{} does not look like Envoy: its version is not in {printed:?}", program.display())]
    NotEnvoy { program: PathBuf, printed: String },
    #[error(
        "{} is Envoy {found}, but {OLDEST} or newer is needed; get {PINNED} with `kodiak dp install-envoy`",
        program.display()
    )]
    TooOld { program: PathBuf, found: Version },
}

impl Version {
    /// What the program says of itself, whether we can use it or not.
    pub fn of(program: &Path) -> Result<Self, VersionError> {
        let mut command = Command::new(program);
        let output = command
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(|source| VersionError::Run { program: program.to_owned(), source })?;
        if !output.status.success() {
            return Err(VersionError::Failed { program: program.to_owned(), status: output.status });
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        Self::parse(&printed).ok_or_else(|| {
            let printed = printed.trim().chars().take(200).collect();
            VersionError::NotEnvoy { program: program.to_owned(), printed }
        })
    }

    /// Like [`Self::of`], and refuses what is older than [`OLDEST`].
    pub fn of_usable(program: &Path) -> Result<Self, VersionError> {
        let found = Self::of(program)?;
        if found < OLDEST {
            return Err(VersionError::TooOld { program: program.to_owned(), found });
        }
        Ok(found)
    }

    /// From `<program>  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`; builds between releases say `1.41.0-dev`.
    fn parse(printed: &str) -> Option<Self> {
        let (_, build) = printed.rsplit_once(" version: ")?;
        let number = build.split('/').nth(1)?.split('-').next()?;
        let mut parts = number.split('.').map(|part| part.parse().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { major, minor, patch } = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::testing;

    #[test]
    fn what_envoy_prints_is_read() {
        let printed =
            "\n/usr/bin/envoy  version: 9e5580933739775e8bce696a57a2e1bc99368f23/1.40.0/Clean/RELEASE/BoringSSL\n\n";
        assert_eq!(Version::parse(printed), Some(PINNED));
        let printed = "envoy  version: 0/1.41.2-dev/Modified/DEBUG/BoringSSL";
        assert_eq!(Version::parse(printed), Some(Version { major: 1, minor: 41, patch: 2 }));
    }

    #[test]
    fn other_text_is_no_version() {
        let others =
            ["", "envoy", "python 3.11.7", "x  version: 1.40.0", "x  version: a/1.40/Clean", "x  version: a/1.4.0.0/C"];
        for other in others {
            assert_eq!(Version::parse(other), None, "{other:?}");
        }
    }

    #[test]
    fn versions_are_ordered_as_numbers() {
        let version = |minor, patch| Version { major: 1, minor, patch };
        assert!(version(9, 9) < version(30, 0) && version(30, 0) < version(30, 1));
        assert_eq!(version(30, 1).to_string(), "1.30.1");
    }

    #[test]
    fn an_old_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("envoy");
        testing::script(&program, &testing::prints_version("1.29.12"));
        assert_eq!(Version::of(&program).unwrap(), Version { major: 1, minor: 29, patch: 12 });
        let expected = format!(
            "{} is Envoy 1.29.12, but 1.30.0 or newer is needed; get 1.40.0 with `kodiak dp install-envoy`",
            program.display()
        );
        assert_eq!(Version::of_usable(&program).unwrap_err().to_string(), expected);
        testing::script(&program, &testing::prints_version("1.30.0"));
        assert_eq!(Version::of_usable(&program).unwrap(), OLDEST);
    }

    #[test]
    fn other_programs_are_refused() {
        let error = Version::of(Path::new("/bin/echo")).unwrap_err();
        assert!(matches!(error, VersionError::NotEnvoy { .. }), "{error}");
        let error = Version::of(Path::new("/bin/false")).unwrap_err();
        assert!(matches!(error, VersionError::Failed { .. }), "{error}");
        let error = Version::of(Path::new("/nowhere/envoy")).unwrap_err();
        assert_eq!(error.to_string(), "cannot run /nowhere/envoy");
    }
}
