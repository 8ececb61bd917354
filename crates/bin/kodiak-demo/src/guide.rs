//! The guide that a scenario follows: its files are written, and its commands are run, as they are in the book.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context as _;
use serde_json::json;
use tokio::process::Command;

const TRIMMING: &str = include_str!("../../../../docs/guides/trim-proxies.md");

/// A folder with the files of the guide.
pub(super) struct Guide {
    folder: PathBuf,
}

/// A section of the guide, after it was run.
pub(super) struct Done {
    pub(super) commands: String,
    pub(super) output: String,
}

impl Guide {
    /// `api` is the URL of the control plane.
    pub(super) fn open(folder: &Path, api: &str) -> anyhow::Result<Self> {
        let folder = folder.join("guide");
        fs::create_dir_all(folder.join("bin"))?;
        let own = std::env::current_exe().context("cannot find the path of this program")?;
        std::os::unix::fs::symlink(own, folder.join("bin/kodiak"))?;
        let config = json!({
            "controlPlanes": [{ "name": "demo", "coordinates": { "apiServer": { "url": api } } }],
            "contexts": [{ "name": "demo", "controlPlane": "demo" }],
            "currentContext": "demo",
        });
        fs::write(folder.join("config"), config.to_string())?;
        Ok(Self { folder })
    }

    pub(super) async fn run(&self, section: &str) -> anyhow::Result<Done> {
        let blocks = blocks(section).with_context(|| format!("the guide has no section {section:?}"))?;
        for block in &blocks {
            if let (Some(file), "yaml") = (block.file, block.language) {
                fs::write(self.folder.join(file), &block.text)?;
            }
        }
        let commands: String =
            blocks.iter().filter(|block| block.language == "sh").map(|block| block.text.as_str()).collect();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new("sh");
        command.args(["-euc", &commands]).current_dir(&self.folder).stdin(Stdio::null()).kill_on_drop(true);
        command.env("PATH", format!("{}:{path}", self.folder.join("bin").display()));
        command.env("KODIAK_CONFIG", self.folder.join("config")).env("HOME", &self.folder);
        let output = command.output().await.context("failed to run sh")?;
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim_end().to_owned();
        anyhow::ensure!(output.status.success(), "commands of {section:?} failed ({}):\n{printed}", output.status);
        Ok(Done { commands, output: printed })
    }
}

/// A fenced block.
struct Block {
    language: &'static str,
    /// Named in the line before.
    file: Option<&'static str>,
    text: String,
}

fn blocks(section: &str) -> Option<Vec<Block>> {
    let (_, after) = TRIMMING.split_once(&format!("\n## {section}\n"))?;
    let section = after.split("\n## ").next()?;
    let mut blocks = Vec::new();
    let (mut open, mut last): (Option<Block>, &str) = (None, "");
    for line in section.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                let file = last.strip_prefix('`').and_then(|last| last.strip_suffix("`:"));
                open = Some(Block { language, file, text: String::new() });
            }
            (Some(_), Some(block)) => {
                blocks.push(block);
                last = "";
            }
            (None, Some(mut block)) => {
                block.text.extend([line, "\n"]);
                open = Some(block);
            }
            (None, None) if !line.is_empty() => last = line,
            (None, None) => (),
        }
    }
    Some(blocks)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Whether the section exists, and has commands.
    pub(in super::super) fn has_commands(section: &str) -> bool {
        blocks(section).is_some_and(|blocks| blocks.iter().any(|block| block.language == "sh"))
    }

    #[test]
    fn files_of_the_guide_have_names() {
        let blocks = blocks("Before you start").unwrap();
        let files: Vec<_> = blocks.iter().filter_map(|block| block.file).collect();
        assert_eq!(files, ["mesh.yaml", "everyone.yaml"]);
        assert!(blocks[1].text.starts_with("type: MeshTrafficPermission\n"), "{}", blocks[1].text);
    }
}
