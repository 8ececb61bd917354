//! `cargo xtask codegen`: generated files that are committed, so that a change to them is visible in review.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::process;
use crate::workspace::Workspace;

/// Write the committed files that are generated from the code.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing; fail when a file is out of date.
    #[arg(long)]
    check: bool,
}

/// A file and the cargo command that prints it.
struct Generated {
    path: &'static str,
    cargo: &'static [&'static str],
}

/// One row for each generated file.
const GENERATED: &[Generated] =
    &[Generated { path: "docs/openapi.json", cargo: &["run", "--quiet", "--package", "kodiak", "--", "openapi"] }];

/// Generates a folder of code from Envoy's protos, and compares it by itself.
const ENVOY_MESSAGES: &[&str] = &["run", "--quiet", "--package", "kodiak-protogen"];

pub(crate) fn run(workspace: &Workspace, args: &Args) -> Result<()> {
    if args.check { check(workspace) } else { write(workspace) }
}

/// Fails for the first file that differs, and shows the difference.
pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    for generated in GENERATED {
        let expected = generated.print(workspace)?;
        let committed = fs::read_to_string(workspace.root.join(generated.path)).unwrap_or_default();
        if let Some(difference) = first_difference(&committed, &expected) {
            bail!("{}:{difference}\nit is generated: run `cargo xtask codegen` and commit the result", generated.path);
        }
        println!("{} is up to date.", generated.path);
    }
    process::run(process::cargo(workspace).args(ENVOY_MESSAGES).args(["--", "--check"]))
}

fn write(workspace: &Workspace) -> Result<()> {
    for generated in GENERATED {
        let text = generated.print(workspace)?;
        let path = workspace.root.join(generated.path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let before = fs::read_to_string(&path).unwrap_or_default();
        fs::write(&path, &text).with_context(|| format!("cannot write {}", generated.path))?;
        println!("{} {}", generated.path, if before == text { "was up to date" } else { "was updated" });
    }
    process::run(process::cargo(workspace).args(ENVOY_MESSAGES))
}

impl Generated {
    fn print(&self, workspace: &Workspace) -> Result<String> {
        let text = process::output(process::cargo(workspace).args(self.cargo))?;
        Ok(with_final_newline(text))
    }
}

/// Text files end with a newline, even if the generator prints none.
fn with_final_newline(text: String) -> String {
    if text.ends_with('\n') { text } else { text + "\n" }
}

/// The first line that differs, with both versions of it.
fn first_difference(committed: &str, expected: &str) -> Option<String> {
    if committed == expected {
        return None;
    }
    let (mut old, mut new) = (committed.lines(), expected.lines());
    for line in 1.. {
        let (old, new) = (old.next(), new.next());
        if old != new {
            let shown = |text: Option<&str>| text.map_or_else(|| "(end of the file)".to_owned(), str::to_owned);
            return Some(format!("{line}: differs\n  committed: {}\n  expected:  {}", shown(old), shown(new)));
        }
        if old.is_none() {
            break;
        }
    }
    Some("1: line endings differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
    }

    #[test]
    fn shows_the_first_line_that_differs() {
        let difference = first_difference("a\nb\nc\n", "a\nx\n").unwrap();
        assert_eq!(difference, "2: differs\n  committed: b\n  expected:  x");
        let difference = first_difference("", "a\n").unwrap();
        assert_eq!(difference, "1: differs\n  committed: (end of the file)\n  expected:  a");
        assert_eq!(first_difference("a\r\n", "a\n").unwrap(), "1: line endings differ");
    }

    #[test]
    fn generated_files_end_with_a_newline() {
        assert_eq!(with_final_newline("{}".to_owned()), "{}\n");
        assert_eq!(with_final_newline("{}\n".to_owned()), "{}\n");
    }
}
