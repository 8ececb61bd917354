//! The list of log messages, from the calls of `tracing` in the code that ships.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::pages::Generated;

/// Code that logs.
const GROUPS: &[&str] = &["crates/core", "crates/edge", "crates/bin"];
const LEVELS: &[(&str, &str)] = &[("tracing::warn!(", "warning"), ("tracing::error!(", "error")];

const INTRODUCTION: &str = "\
# Log messages

Every warning and error in the log of the control plane (`kodiak run`) and the sidecar (`kodiak dp run`), generated from \
the code. `{…}` stands for a value. A message has fields beside it, such as `mesh=`, `name=` and `error=`. \
[Troubleshooting](../troubleshooting.md) explains what to do.

| message | level | part |
|---|---|---|
";

pub(super) fn page(root: &Path) -> Result<Generated> {
    let mut messages = BTreeMap::new();
    for group in GROUPS {
        let folder = root.join(group);
        for entry in fs::read_dir(&folder).with_context(|| format!("cannot read {group}"))? {
            let krate = entry?;
            let name = krate.file_name().to_string_lossy().into_owned();
            let source = krate.path().join("src");
            if source.is_dir() {
                read(&source, &name, &mut messages)?;
            }
        }
    }
    let mut text = INTRODUCTION.to_owned();
    for (message, (level, part)) in &messages {
        let _ = writeln!(text, "| {} | {level} | `{part}` |", message.replace('|', "\\|").replace('<', "\\<"));
    }
    Ok(Generated { path: "reference/messages.md".to_owned(), title: "Log messages".to_owned(), origin: None, text })
}

type Messages = BTreeMap<String, (&'static str, String)>;

fn read(folder: &Path, part: &str, messages: &mut Messages) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let named = |word: &str| path.file_stem().is_some_and(|stem| stem == word);
        if named("tests") || named("generated") {
            continue;
        }
        if path.is_dir() {
            read(&path, part, messages)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            for (message, level) in in_code(&code) {
                messages.insert(message, (level, part.to_owned()));
            }
        }
    }
    Ok(())
}

/// Messages of the calls in a file: the last text among the arguments of each.
fn in_code(code: &str) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    for (call, level) in LEVELS {
        for (start, _) in code.match_indices(call) {
            let texts = texts(&code[start + call.len()..]);
            // Values of fields are texts too; the message is the last.
            found.extend(texts.last().map(|message| (message.clone(), *level)));
        }
    }
    found
}

/// The texts at the top level of a call's arguments. Texts that end with `\` at a line go on in the next.
fn texts(arguments: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut depth = 0_usize;
    let mut rest = arguments.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            ')' if depth == 0 => break,
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '"' => {
                let mut text = String::new();
                while let Some(c) = rest.next() {
                    match c {
                        '"' => break,
                        '\\' if rest.peek() == Some(&'\n') => while rest.next_if(|c| c.is_whitespace()).is_some() {},
                        '\\' => text.extend(rest.next()),
                        c => text.push(c),
                    }
                }
                if depth == 0 {
                    texts.push(text);
                }
            }
            _ => (),
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_the_last_text_of_a_call() {
        let code = "tracing::warn!(kind = \"leaf\", error = chain(\"x\", &e), \"failed to persist, \\\n        retrying\");\n\
                    tracing::info!(\"fine\");\ntracing::error!(\n    mesh = %mesh,\n    \"limit \\\"reached\\\"\"\n);\n";
        let expected =
            [("failed to persist, retrying".to_owned(), "warning"), ("limit \"reached\"".to_owned(), "error")];
        assert_eq!(in_code(code), expected);
    }
}
