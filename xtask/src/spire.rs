//! Builds the SPIRE server and agent that tests start, once, into the user's cache folder.
//!
//! Their plugins for clouds and Kubernetes are left out: they are two thirds of the code that would be compiled, and
//! tests need none of them. Like other tools, SPIRE is built without optimisation.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::copy::copy_all;
use crate::process;
use crate::workspace::Workspace;

/// Folder with the `go.mod` and `go.sum` that pin SPIRE.
const PIN: &str = "crates/dev/kodiak-testkit/spire";
const MODULE: &str = "github.com/spiffe/spire";
const PROGRAMS: [&str; 2] = ["spire-agent", "spire-server"];
/// Go's default location, which is not always on `PATH`.
const GO: &str = "/usr/local/go/bin";

/// Folders of SPIRE with one file for each type of plugin, which lists the plugins.
const CATALOGS: [&str; 2] = ["pkg/agent/catalog", "pkg/server/catalog"];
/// Go packages of the plugins that are built.
const PLUGINS: [&str; 5] = ["disk", "jointoken", "memory", "uniqueid", "unix"];

/// Tests look for the programs in this folder first.
const FOLDER: &str = "KODIAK_SPIRE";
/// With this set, tests that need SPIRE fail instead of being skipped.
const REQUIRE: &str = "KODIAK_REQUIRE_SPIRE";

/// The pinned SPIRE.
pub(crate) struct Spire {
    version: String,
    folder: PathBuf,
}

impl Spire {
    /// `None` when it is not built yet.
    pub(crate) fn find(workspace: &Workspace) -> Result<Option<Self>> {
        let spire = Self::pinned(workspace)?;
        Ok(spire.is_built().then_some(spire))
    }

    pub(crate) fn find_or_build(workspace: &Workspace) -> Result<Self> {
        let spire = Self::pinned(workspace)?;
        if !spire.is_built() {
            spire.build(&workspace.root.join(PIN)).context("cannot build SPIRE, and tests need it")?;
        }
        Ok(spire)
    }

    /// Passes it to the tests that `command` starts, and makes it mandatory.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env(FOLDER, &self.folder).env(REQUIRE, "1");
    }

    pub(crate) fn version(&self) -> String {
        format!("SPIRE {} in {}", self.version, self.folder.display())
    }

    fn pinned(workspace: &Workspace) -> Result<Self> {
        let path = workspace.root.join(PIN).join("go.mod");
        let manifest = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let version = required_version(&manifest).with_context(|| format!("{} lacks {MODULE}", path.display()))?;
        let folder = process::cache_dir()?.join("tools").join(format!("spire-{version}")).join("bin");
        Ok(Self { version: version.to_owned(), folder })
    }

    fn is_built(&self) -> bool {
        PROGRAMS.iter().all(|program| self.folder.join(program).is_file())
    }

    fn build(&self, pin: &Path) -> Result<()> {
        let root = self.folder.parent().context("the folder of programs has a parent")?;
        println!("Building SPIRE {} into {}; this happens once and takes minutes.", self.version, root.display());
        fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
        let build = root.join(format!("build-{}", std::process::id()));
        let result = build_in(&build, pin, &self.folder);
        if build.is_dir() {
            fs::remove_dir_all(&build).with_context(|| format!("cannot remove {}", build.display()))?;
        }
        match result {
            // Another process was faster.
            Err(_) if self.is_built() => Ok(()),
            result => result,
        }
    }
}

/// Version of SPIRE in a `go.mod`, without its `v`.
fn required_version(manifest: &str) -> Option<&str> {
    manifest.lines().find_map(|line| line.strip_prefix("require ")?.strip_prefix(MODULE)?.strip_prefix(" v"))
}

/// Builds a copy of SPIRE, and moves the finished programs to `programs`.
fn build_in(build: &Path, pin: &Path, programs: &Path) -> Result<()> {
    let go = go()?;
    let (source, output) = (build.join("source"), build.join("bin"));
    copy_all(&download(&go, pin)?, &source)?;
    for catalog in CATALOGS {
        leave_out_plugins(&source.join(catalog))?;
    }
    fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
    process::run(&mut compile(&go, &source, &output, &build.join("cache")))?;
    fs::rename(&output, programs).with_context(|| format!("cannot move the programs to {}", programs.display()))
}

fn go() -> Result<PathBuf> {
    let folder = process::folder_on_path("go").unwrap_or_else(|| PathBuf::from(GO));
    let program = folder.join("go");
    ensure!(program.is_file(), "Go is not installed: put `go` on PATH");
    Ok(program)
}

/// Folder of SPIRE's source in Go's module cache, after Go compared it with `go.sum`.
fn download(go: &Path, pin: &Path) -> Result<PathBuf> {
    process::run(Command::new(go).current_dir(pin).args(["mod", "download", MODULE]))?;
    let mut list = Command::new(go);
    let folder = process::output(list.current_dir(pin).args(["list", "-m", "-f", "{{.Dir}}", MODULE]))?;
    Ok(PathBuf::from(folder.trim_end()))
}

fn leave_out_plugins(catalog: &Path) -> Result<()> {
    for entry in fs::read_dir(catalog).with_context(|| format!("cannot read {}", catalog.display()))? {
        let path = entry?.path();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        // Go's module cache is read-only, and so are copies of its files.
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        fs::write(&path, with_our_plugins(&text)).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// A file of a catalog without the lines that import and list other plugins than [`PLUGINS`].
fn with_our_plugins(text: &str) -> String {
    let lines = text.lines().filter(|line| plugin(line).is_none_or(|name| PLUGINS.contains(&name)));
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Go package of the plugin that a line imports or lists.
fn plugin(line: &str) -> Option<&str> {
    let line = line.trim();
    if let Some(name) = line.strip_suffix(".BuiltIn(),") {
        return Some(name);
    }
    let (alias, path) = line.strip_suffix('"')?.split_once('"')?;
    let (_, kind_and_name) = path.strip_prefix(MODULE)?.split_once("/plugin/")?;
    let (_, name) = kind_and_name.split_once('/')?;
    Some(if alias.is_empty() { name } else { alias.trim() })
}

/// The build cache goes away with the build: it is five times as large as the programs.
fn compile(go: &Path, source: &Path, output: &Path, cache: &Path) -> Command {
    let mut command = Command::new(go);
    command.current_dir(source).env("GOCACHE", cache).env("GOWORK", "off");
    // For SQLite, the only part in C.
    command.env("CGO_ENABLED", "1").env("CGO_CFLAGS", "-O0");
    command.args(["build", "-buildvcs=false", "-gcflags=all=-N -l -dwarf=false", "-ldflags=-s -w", "-o"]);
    command.arg(output).args(PROGRAMS.map(|program| format!("./cmd/{program}")));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_that_of_the_pin() {
        let workspace = Workspace::find().unwrap();
        let spire = Spire::pinned(&workspace).unwrap();
        let sums = fs::read_to_string(workspace.root.join(PIN).join("go.sum")).unwrap();
        assert!(sums.starts_with(&format!("{MODULE} v{} h1:", spire.version)), "{sums}");
        assert!(spire.folder.ends_with(format!("tools/spire-{}/bin", spire.version)), "{}", spire.folder.display());
        assert_eq!(required_version("module other\n\ngo 1.26\n"), None);
    }

    #[test]
    fn other_plugins_are_left_out() {
        let catalog = r#"
import (
    "github.com/spiffe/spire/pkg/common/catalog"
    "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority"
    "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority/awspca"
    "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority/disk"
    spireplugin "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority/spire"
)
    return []catalog.BuiltIn{
        awspca.BuiltIn(),
        disk.BuiltIn(),
        spireplugin.BuiltIn(),
    }
"#;
        let expected = r#"
import (
    "github.com/spiffe/spire/pkg/common/catalog"
    "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority"
    "github.com/spiffe/spire/pkg/server/plugin/upstreamauthority/disk"
)
    return []catalog.BuiltIn{
        disk.BuiltIn(),
    }
"#;
        assert_eq!(with_our_plugins(catalog), expected);
    }

    #[test]
    fn tests_must_use_the_built_spire() {
        let mut command = Command::new("true");
        Spire { version: "1.2.3".to_owned(), folder: PathBuf::from("/cache/bin") }.prepare(&mut command);
        let set = |name: &str| command.get_envs().find_map(|(key, value)| (key == name).then_some(value?));
        assert_eq!(set(FOLDER), Some("/cache/bin".as_ref()));
        assert_eq!(set(REQUIRE), Some("1".as_ref()));
    }
}
