//! `cargo xtask dist`: a release as an archive, with its debug information apart.

mod archive;
mod licences;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;
use archive::Contents;

/// Builds a release and packs it into an archive below the target folder.
///
/// The archive has the stripped program, shell completions, README, LICENSE and the licences of all dependencies.
/// Debug information is in a file beside it, which debuggers find by its name.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Pack the program that is already built.
    #[arg(long)]
    no_build: bool,
}

const PROGRAM: &str = "kodiak";
/// Optimized as a whole: a smaller program for a longer build.
const PROFILE: &str = "shipped";
/// Shells, and the names of completion files that they look for.
const COMPLETIONS: &[(&str, &str)] = &[("bash", "kodiak.bash"), ("fish", "kodiak.fish"), ("zsh", "_kodiak")];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if !args.no_build {
        process::run(process::cargo(workspace).args([
            "build",
            "--profile",
            PROFILE,
            "--locked",
            "--package",
            PROGRAM,
        ]))?;
    }
    let target = workspace.metadata("Cargo.toml")?.target_dir;
    let built = target.join(PROFILE).join(PROGRAM);
    let host = host(&process::output(Command::new("rustc").arg("-vV").current_dir(&workspace.root))?)?;
    let version = version(&process::output(Command::new(&built).arg("--version"))?)?;
    let folder = target.join("dist");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;

    let name = format!("{PROGRAM}-{version}-{host}");
    let (program, debug) = split_debug_info(&built, &folder, &name)?;
    let contents = Contents {
        program: fs::read(&program).with_context(|| format!("cannot read {}", program.display()))?,
        completions: completions(&built)?,
        readme: read(workspace, "README.md")?,
        licence: read(workspace, "LICENSE")?,
        licences: licences::of_dependencies(workspace, PROGRAM, &host)?,
    };
    let packed = archive::pack(&folder, &name, &contents)?;
    fs::remove_file(&program).with_context(|| format!("cannot remove {}", program.display()))?;
    println!(
        "{}: {} MB of program before, {} MB stripped",
        built.display(),
        megabytes(&built)?,
        mb(contents.program.len())
    );
    println!("{}: {} MB", packed.display(), megabytes(&packed)?);
    println!("{}: {} MB of debug information", debug.display(), megabytes(&debug)?);
    Ok(())
}

/// Writes the program without symbols, and its debug information, which it names.
fn split_debug_info(built: &Path, folder: &Path, name: &str) -> Result<(PathBuf, PathBuf)> {
    let (program, debug) = (folder.join(format!("{name}.stripped")), folder.join(format!("{name}.debug")));
    process::run(Command::new("objcopy").arg("--only-keep-debug").arg(built).arg(&debug))
        .context("objcopy of binutils splits debug information off")?;
    let link = format!("--add-gnu-debuglink={}", debug.display());
    process::run(Command::new("objcopy").args(["--strip-all", &link]).arg(built).arg(&program))?;
    Ok((program, debug))
}

fn completions(program: &Path) -> Result<Vec<(&'static str, String)>> {
    let print = |shell: &str| process::output(Command::new(program).args(["completion", shell]));
    COMPLETIONS.iter().map(|(shell, file)| Ok((*file, print(shell)?))).collect()
}

fn read(workspace: &Workspace, path: &str) -> Result<String> {
    fs::read_to_string(workspace.root.join(path)).with_context(|| format!("cannot read {path}"))
}

/// The last word of `kodiak 0.1.0`.
fn version(output: &str) -> Result<String> {
    let version = output.lines().next().and_then(|line| line.split_whitespace().nth(1));
    version.map(str::to_owned).with_context(|| format!("`{PROGRAM} --version` printed {output:?}"))
}

/// The line `host: x86_64-unknown-linux-gnu`.
fn host(output: &str) -> Result<String> {
    let host = output.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` names no host")
}

fn megabytes(path: &Path) -> Result<String> {
    let length = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    Ok(mb(usize::try_from(length).unwrap_or(usize::MAX)))
}

fn mb(bytes: usize) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes % 1_000_000 / 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_has_version_and_target() {
        assert_eq!(version("kodiak 0.1.0\n").unwrap(), "0.1.0");
        assert!(version("").is_err());
        assert_eq!(host("rustc 1.95.0\nhost: x86_64-unknown-linux-gnu\n").unwrap(), "x86_64-unknown-linux-gnu");
        assert_eq!(mb(54_321_000), "54.3");
    }

    #[test]
    fn debug_information_is_split_off() {
        let scratch = tempfile::tempdir().unwrap();
        let this = std::env::current_exe().unwrap();
        let (program, debug) = split_debug_info(&this, scratch.path(), "x").unwrap();
        let length = |path: &Path| fs::metadata(path).unwrap().len();
        assert!(length(&program) < length(&this) && length(&debug) > 0);
        assert!(process::output(Command::new(&program).arg("--list")).unwrap().contains("debug_information"));
    }
}
