//! `cargo xtask ci`: all checks of a change, cheapest first.

mod summary;

use std::time::Instant;

use anyhow::{Result, bail};

use crate::envoy::Envoy;
use crate::postgres::Postgres;
use crate::spire::Spire;
use crate::workspace::Workspace;
use crate::{codegen, compat, conformance, deny, docs, fuzz, new, process, programs, test, tidy, tools};
use summary::{Outcome, Row};

/// Runs all checks and stops at the first that fails.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Skip the slow steps: the skeleton of a policy, fuzzing and conformance.
    #[arg(long)]
    fast: bool,
    /// Run this step alone: `--only setup` prepares a machine for tests.
    #[arg(long, value_name = "STEP", value_parser = STEPS.iter().map(|step| step.name).collect::<Vec<_>>())]
    only: Option<String>,
}

struct Step {
    name: &'static str,
    /// Description for the headline.
    what: &'static str,
    slow: bool,
    run: fn(&Workspace) -> Result<Outcome>,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "code is formatted", slow: false, run: fmt },
    Step { name: "tidy", what: "the rules of the repository hold", slow: false, run: tidy },
    Step { name: "clippy", what: "no warnings", slow: false, run: clippy },
    Step { name: "setup", what: "what the tests start is installed", slow: false, run: setup },
    Step { name: "deny", what: "licences and sources of dependencies are allowed", slow: false, run: deny },
    Step { name: "test", what: "unit and integration tests pass", slow: false, run: tests },
    Step { name: "compat", what: "kumactl and Kuma's REST clients are answered as recorded", slow: false, run: compat },
    Step { name: "codegen", what: "generated files are what the code says", slow: false, run: generated },
    Step { name: "docs", what: "the book builds and its links resolve", slow: false, run: docs },
    Step { name: "skeleton", what: "a new policy compiles and passes its tests", slow: true, run: skeleton },
    Step { name: "fuzz", what: "no target fails within seconds", slow: true, run: fuzz },
    Step { name: "conformance", what: "no fewer recorded cases pass", slow: true, run: conformance },
];

/// How long each fuzz target runs. Long enough to read the whole corpus; finding new things is for `cargo xtask fuzz`.
const FUZZ_SECONDS: u64 = 5;

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    let rows = run_steps(workspace, STEPS, args);
    println!("\n{}", summary::table(&rows));
    match rows.iter().find(|row| matches!(row.outcome, Outcome::Failed)) {
        Some(row) => bail!("{} failed", row.step),
        None => Ok(()),
    }
}

fn run_steps(workspace: &Workspace, steps: &[Step], args: &Args) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut failed = false;
    for step in steps {
        let start = Instant::now();
        let outcome = if failed {
            Outcome::NotReached
        } else if args.fast && step.slow {
            Outcome::Skipped("--fast".to_owned())
        } else if args.only.as_ref().is_some_and(|only| only != step.name) {
            Outcome::Skipped("--only".to_owned())
        } else {
            println!("\n==> {}: {}", step.name, step.what);
            (step.run)(workspace).unwrap_or_else(|error| {
                eprintln!("error: {error:#}");
                failed = true;
                Outcome::Failed
            })
        };
        let elapsed = start.elapsed();
        if !matches!(outcome, Outcome::NotReached) {
            println!("<== {}: {outcome} after {}", step.name, summary::seconds(elapsed));
        }
        rows.push(Row { step: step.name, outcome, elapsed });
    }
    rows
}

fn fmt(workspace: &Workspace) -> Result<Outcome> {
    crate::fmt::check(workspace)?;
    Ok(Outcome::Passed(None))
}

fn tidy(workspace: &Workspace) -> Result<Outcome> {
    tidy::check(workspace).map(|summary| Outcome::Passed(Some(summary)))
}

fn clippy(workspace: &Workspace) -> Result<Outcome> {
    let mut command = process::cargo(workspace);
    process::run(command.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Passed(None))
}

fn setup(workspace: &Workspace) -> Result<Outcome> {
    programs::install_missing()?;
    for tool in [tools::CARGO_DENY, tools::MDBOOK] {
        tool.find_or_install()?;
    }
    let (postgres, envoy) = (Postgres::installed()?.version()?, Envoy::find_or_install(workspace)?);
    let spire = Spire::find_or_build(workspace)?.version();
    Ok(Outcome::Passed(Some(format!("{postgres}; Envoy at {}; {spire}", envoy.program.display()))))
}

fn deny(workspace: &Workspace) -> Result<Outcome> {
    deny::check(workspace).map(|summary| Outcome::Passed(Some(summary)))
}

fn tests(workspace: &Workspace) -> Result<Outcome> {
    test::everything(workspace)?;
    Ok(Outcome::Passed(None))
}

fn compat(workspace: &Workspace) -> Result<Outcome> {
    compat::check(workspace)?;
    Ok(Outcome::Passed(None))
}

fn generated(workspace: &Workspace) -> Result<Outcome> {
    codegen::check(workspace)?;
    Ok(Outcome::Passed(None))
}

fn docs(workspace: &Workspace) -> Result<Outcome> {
    docs::check(workspace).map(|summary| Outcome::Passed(Some(summary)))
}

fn skeleton(workspace: &Workspace) -> Result<Outcome> {
    new::trial::check(workspace)?;
    Ok(Outcome::Passed(None))
}

fn fuzz(workspace: &Workspace) -> Result<Outcome> {
    fuzz::smoke(workspace, FUZZ_SECONDS).map(|summary| Outcome::Passed(Some(summary)))
}

fn conformance(workspace: &Workspace) -> Result<Outcome> {
    Ok(match conformance::check(workspace)? {
        Some(summary) => Outcome::Passed(Some(summary)),
        None => Outcome::Skipped("no recorded cases: set KODIAK_GOLDENS to their folder".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(fast: bool) -> Vec<(&'static str, String)> {
        let pass = |_: &Workspace| Ok(Outcome::Passed(None));
        let steps = [
            Step { name: "slow", what: "", slow: true, run: pass },
            Step { name: "good", what: "", slow: false, run: pass },
            Step { name: "bad", what: "", slow: false, run: |_| bail!("it is bad") },
            Step { name: "after", what: "", slow: false, run: |_| panic!("nothing runs after a failure") },
        ];
        let workspace = Workspace { root: "/nowhere".into() };
        let rows = run_steps(&workspace, &steps, &Args { fast, only: None });
        rows.iter().map(|row| (row.step, row.outcome.to_string())).collect()
    }

    #[test]
    fn the_first_failure_is_the_last_step() {
        let expected = [("slow", "passed"), ("good", "passed"), ("bad", "FAILED"), ("after", "not reached")];
        assert_eq!(outcomes(false), expected.map(|(step, outcome)| (step, outcome.to_owned())));
    }

    #[test]
    fn fast_leaves_out_what_is_slow() {
        assert_eq!(outcomes(true)[0], ("slow", "skipped".to_owned()));
    }
}
