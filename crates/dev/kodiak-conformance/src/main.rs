//! Compares Kodiak with recorded inputs and outputs, one folder for each suite.
//!
//! Cases are fed to the same functions and HTTP handlers that serve users. No case is known by name: intentional
//! differences are named rules (`deviations`), and unsupported features are skipped with a reason.

mod case;
mod deviations;
mod lenient;
mod suites;
mod synced_name;

use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

use anyhow::Context as _;
use clap::Parser;
use serde_json::json;

use crate::case::{Case, Outcome};

/// Runs recorded cases and counts those that pass.
#[derive(Parser)]
struct Args {
    /// The folder with the suites.
    #[arg(default_value = "goldens")]
    dir: PathBuf,
    /// Only suites of this name; a trailing `*` matches anything.
    #[arg(long)]
    suite: Option<String>,
    /// Only cases whose path contains this.
    #[arg(long)]
    case: Option<String>,
    /// Show differences, and why cases are skipped.
    #[arg(long)]
    show: bool,
    /// List intentional differences.
    #[arg(long)]
    list_deviations: bool,
    /// Write the counts of each suite to this file.
    #[arg(long)]
    json: Option<PathBuf>,
}

#[derive(Default)]
struct Counts {
    passed: usize,
    failed: usize,
    skipped: usize,
}

fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    if args.list_deviations {
        deviations::list();
        return Ok(ExitCode::SUCCESS);
    }
    let mut total = Counts::default();
    let mut by_suite = BTreeMap::new();
    for suite in suites(&args)? {
        let counts = run_suite(&args, &suite)?;
        println!("{suite:32} {:4} passed {:4} failed {:4} skipped", counts.passed, counts.failed, counts.skipped);
        total.passed += counts.passed;
        total.failed += counts.failed;
        total.skipped += counts.skipped;
        let row = json!({ "passed": counts.passed, "failed": counts.failed, "skipped": counts.skipped });
        by_suite.insert(suite, row);
    }
    if let Some(path) = &args.json {
        std::fs::write(path, serde_json::to_string_pretty(&by_suite)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    println!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn suites(args: &Args) -> anyhow::Result<Vec<String>> {
    let entries = std::fs::read_dir(&args.dir).with_context(|| format!("cannot read {}", args.dir.display()))?;
    let folders = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        path.is_dir().then(|| path.file_name()?.to_str().map(str::to_owned)).flatten()
    });
    let wanted = |name: &String| match &args.suite {
        None => true,
        Some(pattern) => match pattern.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == pattern,
        },
    };
    let mut suites: Vec<String> = folders.filter(wanted).collect();
    suites.sort();
    anyhow::ensure!(!suites.is_empty(), "no such suite in {}", args.dir.display());
    Ok(suites)
}

fn run_suite(args: &Args, suite: &str) -> anyhow::Result<Counts> {
    let mut counts = Counts::default();
    // Where one input has many outputs, each of them is a case.
    let endings: &[&str] = if suite == "matchers" { &[".golden.yaml"] } else { &[".input.yaml", ".in.yaml"] };
    for case in case::find(&args.dir.join(suite), endings)? {
        if args.case.as_ref().is_some_and(|part| !case.name.contains(part.as_str())) {
            continue;
        }
        let outcome = run_case(suite, &case);
        match &outcome {
            Outcome::Passed => counts.passed += 1,
            Outcome::Failed(_) => counts.failed += 1,
            Outcome::Skipped(_) => counts.skipped += 1,
        }
        match outcome {
            Outcome::Failed(text) if args.show => println!("FAILED {suite}/{}\n{text}", case.name),
            Outcome::Failed(_) => println!("FAILED {suite}/{}", case.name),
            Outcome::Skipped(reason) if args.show => println!("skipped {suite}/{}: {reason}", case.name),
            Outcome::Passed | Outcome::Skipped(_) => (),
        }
    }
    Ok(counts)
}

fn run_case(suite: &str, case: &Case) -> Outcome {
    let result = match suite.strip_prefix("validate-") {
        Some(kind) => suites::validate::run(kind, case),
        None if suite == "api" => suites::api::run(case),
        None if ["rules", "rules-inbound", "rules-outbound"].contains(&suite) => suites::rules::run(case),
        None if suite == "context-hash" => suites::context::run(case),
        None if suite == "envoyconfig" => suites::envoyconfig::run(case),
        None if suite == "matchers" => suites::matchers::run(case),
        None => Ok(Outcome::Skipped(format!("the suite {suite} is unsupported"))),
    };
    result.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
}
