//! One run of libFuzzer over one target.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::crashes;
use crate::families;
use crate::process;
use crate::workspace::Workspace;

/// Larger inputs are slow and find nothing that smaller ones do not.
const MAX_INPUT: usize = 16 * 1024;
/// An input that takes longer is reported like a crash.
const MAX_SECONDS_PER_INPUT: u32 = 10;

/// Targets that also read the `cases` of kinds.
const READS_CASES: &[&str] = &["yaml_documents"];

/// Number of lines of libFuzzer's log that are shown when it fails without a panic.
const SHOWN: usize = 40;

/// Files of a target in the cache, between runs.
struct Kept {
    /// Inputs that increase coverage.
    corpus: PathBuf,
    /// Inputs that crashed the target.
    found: PathBuf,
    log: PathBuf,
}

/// Runs a target and returns a summary. Fails, with instructions, when an input crashes it.
pub(super) fn feed(workspace: &Workspace, target: &str, program: &Path, seconds: u64) -> Result<String> {
    let kept = Kept::of(target)?;
    let log = File::create(&kept.log).with_context(|| format!("cannot write {}", kept.log.display()))?;
    if seconds > 30 {
        println!("{target}: {seconds} seconds; its log is {}", kept.log.display());
    }
    let ran = process::run(command(workspace, target, program, seconds, &kept).stderr(log));
    let log = String::from_utf8_lossy(&fs::read(&kept.log)?).into_owned();
    let broken = crashes::keep(workspace, target, &kept.found)?;
    if ran.is_ok() && broken.is_empty() {
        return Ok(summary(&log));
    }
    println!("{}", failure(&log));
    if broken.is_empty() {
        ran.with_context(|| format!("fuzz target {target} failed"))?;
    }
    bail!("{}", crashes::advice(target, &broken));
}

fn command(workspace: &Workspace, target: &str, program: &Path, seconds: u64, kept: &Kept) -> Command {
    let mut command = Command::new(program);
    command
        .current_dir(&workspace.root)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={MAX_INPUT}"))
        .arg(format!("-timeout={MAX_SECONDS_PER_INPUT}"))
        .arg(format!("-artifact_prefix={}/", kept.found.display()))
        .arg("-print_final_stats=1");
    if let Some(dictionary) = dictionary(workspace, target) {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    // libFuzzer writes to the first folder, and only reads the others.
    command.arg(&kept.corpus).args(examples(workspace, target));
    command
}

impl Kept {
    fn of(target: &str) -> Result<Self> {
        let folder = process::cache_dir()?.join("fuzz").join(target);
        let kept = Self { corpus: folder.join("corpus"), found: folder.join("found"), log: folder.join("log") };
        for folder in [&kept.corpus, &kept.found] {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        Ok(kept)
    }
}

/// Committed input folders: the seeds of the target, including earlier crashes, and for [`READS_CASES`] the cases of
/// all kinds.
fn examples(workspace: &Workspace, target: &str) -> Vec<PathBuf> {
    let mut folders = vec![workspace.root.join("fuzz/seeds").join(target)];
    if READS_CASES.contains(&target) {
        for family in families::ALL {
            let kinds = fs::read_dir(workspace.root.join(family.folder)).into_iter().flatten().flatten();
            folders.extend(kinds.map(|kind| kind.path().join("cases")));
        }
    }
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    folders
}

/// Keywords of the language that a target reads, which random bytes rarely contain.
fn dictionary(workspace: &Workspace, target: &str) -> Option<PathBuf> {
    let file = workspace.root.join("fuzz/dictionaries").join(format!("{target}.dict"));
    Some(file).filter(|file| file.is_file())
}

/// From the statistics that libFuzzer prints at its end.
fn summary(log: &str) -> String {
    let stat = |name: &str| {
        let value = log.lines().find_map(|line| line.strip_prefix("stat::")?.strip_prefix(name)?.strip_prefix(':'));
        value.map_or("?", str::trim)
    };
    format!("{} inputs, {} of them added to the corpus", stat("number_of_executed_units"), stat("new_units_added"))
}

/// The relevant part of a log: from the panic on, or its end.
fn failure(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    lines[panic.unwrap_or(lines.len().saturating_sub(SHOWN))..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_are_read() {
        let log = "INFO: x\nstat::number_of_executed_units: 12944\nstat::new_units_added:          959\n";
        assert_eq!(summary(log), "12944 inputs, 959 of them added to the corpus");
        assert_eq!(summary(""), "? inputs, ? of them added to the corpus");
    }

    #[test]
    fn a_failure_is_shown_from_its_panic_or_else_the_end() {
        let log = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        assert!(failure(&log).starts_with("60\n") && failure(&log).ends_with("\n99"));
        let log = format!("thread 'x' panicked at src/lib.rs:1:1:\n{log}");
        assert_eq!(failure(&log), log);
        assert_eq!(failure("one"), "one");
    }

    #[test]
    fn yaml_starts_from_the_cases_of_all_kinds() {
        let root = tempfile::tempdir().unwrap();
        let workspace = Workspace { root: root.path().to_owned() };
        let (kinds, policies) = (families::KINDS.folder, families::POLICIES.folder);
        for folder in [&format!("{kinds}/zone/cases"), &format!("{policies}/mesh_foo"), "fuzz/seeds/kri"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        assert_eq!(examples(&workspace, "yaml_documents"), [root.path().join(kinds).join("zone/cases")]);
        assert_eq!(examples(&workspace, "kri"), [root.path().join("fuzz/seeds/kri")]);
        assert!(examples(&workspace, "token").is_empty());
    }
}
