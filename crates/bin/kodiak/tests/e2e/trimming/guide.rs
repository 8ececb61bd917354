//! Steps of a guide, run as they are written there.

use std::{fs, path::PathBuf, process::Command};

use serde_json::json;

use crate::harness::{MESH, Mesh, network::printed};

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/guides/trim-proxies.md");
/// Mesh of the guide.
const WRITTEN: &str = "default";

/// A folder with the files of the guide, and a shell that knows the control plane.
pub(super) struct Guide {
    text: String,
    folder: PathBuf,
}

impl Guide {
    pub(super) fn open(mesh: &Mesh) -> Self {
        let folder = mesh.folder().join("guide");
        fs::create_dir_all(folder.join("bin")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kodiak"), folder.join("bin/kodiak")).unwrap();
        let url = format!("http://{}", mesh.control_plane.api());
        let config = json!({
            "controlPlanes": [{ "name": "test", "coordinates": { "apiServer": { "url": url } } }],
            "contexts": [{ "name": "test", "controlPlane": "test", "defaults": { "mesh": MESH } }],
            "currentContext": "test",
        });
        fs::write(folder.join("config"), config.to_string()).unwrap();
        Self { text: fs::read_to_string(GUIDE).unwrap(), folder }
    }

    /// Writes the files of a section, and runs its commands. Returns what they print.
    pub(super) fn run(&self, section: &str) -> String {
        self.run_with(section, str::to_owned)
    }

    /// The same with changed files and commands.
    pub(super) fn run_with(&self, section: &str, changed: impl Fn(&str) -> String) -> String {
        self.write(section, &changed);
        let blocks = blocks(&self.text, section);
        let commands = blocks.iter().filter(|block| block.language == "sh").map(|block| changed(&block.text));
        let script: String = commands.collect();
        assert!(!script.is_empty(), "{section} has commands");
        let printed = self.bash(&script).unwrap_or_else(|printed| panic!("{section}: {script}\n{printed}"));
        assert!(!printed.contains("deprecated"), "{section}: {printed}");
        printed
    }

    /// Writes the files of a section.
    pub(super) fn write(&self, section: &str, changed: impl Fn(&str) -> String) {
        for Block { language, file, text } in blocks(&self.text, section) {
            if let Some(file) = file.filter(|_| language == "yaml") {
                let text = ["mesh: ", "name: "].iter().fold(changed(&text), |text, key| {
                    text.replace(&format!("{key}{WRITTEN}\n"), &format!("{key}{MESH}\n"))
                });
                let text = text.replace(&format!("spiffe://{WRITTEN}/"), &format!("spiffe://{MESH}/"));
                fs::write(self.folder.join(file), text).unwrap();
            }
        }
    }

    /// Output; an error if the script fails.
    pub(super) fn bash(&self, script: &str) -> Result<String, String> {
        let path = format!("{}:{}", self.folder.join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("bash");
        command.args(["-euo", "pipefail", "-c", script]).current_dir(&self.folder).env("PATH", path);
        command.env("KODIAK_CONFIG", self.folder.join("config")).env("HOME", &self.folder);
        let output = command.output().unwrap();
        if output.status.success() { Ok(printed(&output)) } else { Err(printed(&output)) }
    }

    pub(super) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

/// A fenced block.
struct Block<'a> {
    language: &'a str,
    /// Named in the line before.
    file: Option<&'a str>,
    text: String,
}

fn blocks<'a>(guide: &'a str, section: &str) -> Vec<Block<'a>> {
    let heading = format!("## {section}");
    let (_, after) = guide.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} is in the guide"));
    let section = after.split("\n## ").next().unwrap();
    let mut blocks = Vec::new();
    let (mut open, mut last): (Option<Block<'_>>, &str) = (None, "");
    for line in section.lines() {
        match (line.strip_prefix("```"), open.take()) {
            (Some(language), None) => {
                let file = last.strip_prefix('`').and_then(|last| last.strip_suffix("`:"));
                open = Some(Block { language, file, text: String::new() });
            }
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                open = Some(block);
            }
            (None, None) if !line.is_empty() => last = line,
            (None, None) => (),
        }
    }
    blocks
}
