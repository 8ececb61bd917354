//! The reference of commands, from the help texts of the program itself.

use std::env;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::pages::Generated;
use crate::process;

/// Options that every command takes. They are shown once, on the first page.
const GLOBAL_OPTIONS: &str = "\nGlobal options:\n";

/// A page for the program, and one for each of its commands.
pub(super) fn pages(program: &Path) -> Result<Vec<Generated>> {
    let run = |words: &[String]| help(program, words);
    let overview = run(&[])?;
    let mut pages = vec![first_page(&overview)];
    for (name, _) in subcommands(&overview) {
        let mut text = format!("# kodiak {name}\n");
        add_sections(&mut text, std::slice::from_ref(&name), &run)?;
        text.push_str("\n[Options that every command takes](../commands.md#options)\n");
        let path = format!("reference/commands/{name}.md");
        pages.push(Generated { path, title: format!("kodiak {name}"), origin: None, text });
    }
    Ok(pages)
}

fn help(program: &Path, words: &[String]) -> Result<String> {
    let mut command = Command::new(program);
    // The environment of the machine that builds the book must not show.
    for (key, _) in env::vars_os() {
        let ours = key.to_str().is_some_and(|key| key.starts_with("KODIAK_") || key.starts_with("KUMA_"));
        if ours {
            command.env_remove(&key);
        }
    }
    process::output(command.args(words).arg("--help").env("NO_COLOR", "1"))
}

fn first_page(help: &str) -> Generated {
    let mut text =
        "# Commands\n\n`kodiak` is the control plane, the sidecar and the command-line tool in one program. \
                    These pages are the output of `--help`.\n\n| command | |\n|---|---|\n"
            .to_owned();
    for (name, about) in subcommands(help) {
        let _ = writeln!(text, "| [kodiak {name}](commands/{name}.md) | {about} |");
    }
    let _ = writeln!(text, "\n## Options\n\n```text\n{}\n```", help.trim());
    let path = "reference/commands.md".to_owned();
    Generated { path, title: "Commands".to_owned(), origin: None, text }
}

/// Adds the help text of a command, then those of its subcommands.
fn add_sections(text: &mut String, words: &[String], run: &impl Fn(&[String]) -> Result<String>) -> Result<()> {
    let help = run(words)?;
    if words.len() > 1 {
        let _ = writeln!(text, "\n{} kodiak {}", "#".repeat(words.len().min(4)), words.join(" "));
    }
    let _ = writeln!(text, "\n```text\n{}\n```", without_global_options(&help).trim());
    for (name, _) in subcommands(&help) {
        add_sections(text, &[words, &[name]].concat(), run)?;
    }
    Ok(())
}

/// Names and descriptions below `Commands:`.
fn subcommands(help: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty()) {
        match line.strip_prefix("  ") {
            Some(entry) if !entry.starts_with(' ') => {
                let (name, about) = entry.split_once(' ').unwrap_or((entry, ""));
                found.push((name.to_owned(), about.trim().to_owned()));
            }
            // A description that goes on.
            _ => {
                if let Some((_, about)) = found.last_mut() {
                    about.push(' ');
                    about.push_str(line.trim());
                }
            }
        }
    }
    found.retain(|(name, _)| name != "help");
    found
}

/// The help text without the options that all commands share.
fn without_global_options(help: &str) -> String {
    let Some((before, after)) = help.split_once(GLOBAL_OPTIONS) else { return help.to_owned() };
    let rest = after.split_once("\n\n").map_or("", |(_, rest)| rest);
    format!("{before}\n{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "About

Usage: kodiak [OPTIONS] <COMMAND>

Commands:
  run      Run the control plane
  migrate  Guided migrations, with a description
           that is long
  help     Print this message

Options:
  -h, --help  Print help

Global options:
  -q, --quiet  Print less

Examples:
  kodiak run
";

    #[test]
    fn commands_are_read_from_the_help_text() {
        let found = subcommands(HELP);
        assert_eq!(
            found,
            [
                ("run".to_owned(), "Run the control plane".to_owned()),
                ("migrate".to_owned(), "Guided migrations, with a description that is long".to_owned())
            ]
        );
        assert!(subcommands("Usage: kodiak run\n").is_empty());
    }

    #[test]
    fn options_of_all_commands_are_left_out() {
        let text = without_global_options(HELP);
        assert!(!text.contains("--quiet") && text.contains("--help") && text.contains("Examples:"), "{text}");
    }

    #[test]
    fn subcommands_have_sections_of_their_own() {
        let run = |words: &[String]| {
            Ok(if words == ["dp"] { "Sidecar\n\nCommands:\n  run  Run it\n".to_owned() } else { words.join("+") })
        };
        let mut text = String::new();
        add_sections(&mut text, &["dp".to_owned()], &run).unwrap();
        assert!(text.ends_with("\n## kodiak dp run\n\n```text\ndp+run\n```\n"), "{text}");
    }
}
