//! A Python with grpcio, installed once for all tests of this machine.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kodiak_testkit::skip::{Need, skip};

const PYTHON: &str = "python3";
const PACKAGE: &str = "grpcio==1.76.0";

/// `None`, and loudly so, where there is no Python.
pub(crate) fn python() -> Option<PathBuf> {
    if let Err(error) = Command::new(PYTHON).arg("--version").stdout(Stdio::null()).status() {
        skip(Need::Program, &format!("the xDS client of gRPC needs {PYTHON}, which does not run: {error}"));
        return None;
    }
    let folder = cache().join("kodiak").join(PACKAGE.replace("==", "-"));
    fs::create_dir_all(&folder).unwrap();
    // Others wait until it is installed; an installation that was killed has left no marker file.
    let lock = File::open(&folder).unwrap();
    lock.lock().unwrap();
    let (venv, ready) = (folder.join("venv"), folder.join("ready"));
    let python = venv.join("bin").join(PYTHON);
    if !ready.exists() {
        run(Command::new(PYTHON).args(["-m", "venv", "--clear"]).arg(&venv));
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--no-input", "--only-binary=:all:", "--disable-pip-version-check", PACKAGE]);
        run(&mut pip);
        File::create(ready).unwrap();
    }
    Some(python)
}

fn cache() -> PathBuf {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || absolute("HOME").map(|home| home.join(".cache"));
    absolute("XDG_CACHE_HOME").or_else(home).unwrap_or_else(|| Path::new("/tmp").to_owned())
}

fn run(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?} failed:\n{text}");
}
