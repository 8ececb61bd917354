//! Recorded kumactl command lines: the requests behind each, and the same command line with `kodiak`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

use crate::{call::Answer, report::Report, server::Server};

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recorded {
    /// Arguments of kumactl, separated by blanks.
    pub(crate) kumactl: String,
    /// Content of the file that the arguments name as FILE.
    pub(crate) file: Option<Value>,
    /// Requests in their order.
    #[serde(default)]
    pub(crate) requests: Vec<Sent>,
    /// Parts of what kumactl prints, for a comparison with the program itself.
    #[serde(default)]
    pub(crate) prints: Vec<String>,
    pub(crate) kodiak: Kodiak,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sent {
    pub(crate) request: String,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Option<Value>,
    /// Parts of the answer that kumactl reads.
    pub(crate) reads: Answer,
}

/// The same arguments, given to `kodiak`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kodiak {
    #[serde(default)]
    pub(crate) exit: i32,
    /// Parts of what it prints, on either stream.
    #[serde(default)]
    pub(crate) prints: Vec<String>,
}

pub(crate) async fn run(
    commands: &[Recorded],
    server: &Server,
    kodiak: Option<&Path>,
    filter: &str,
    report: &mut Report,
) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    if let Some(program) = kodiak {
        let add = ["config", "control-planes", "add", "--name", "compat", "--address", &server.url].map(str::to_owned);
        let added = start(program, &add, folder.path())?;
        anyhow::ensure!(added.exit == Some(0), "{}", added.printed);
    }
    for command in commands {
        let (mut requests, is_wanted) = (Vec::new(), command.kumactl.contains(filter));
        for sent in &command.requests {
            let reply = server.request(&sent.request, &sent.headers, sent.body.as_ref()).await?;
            let differences = sent.reads.differences(&reply);
            requests.extend(differences.into_iter().map(|difference| format!("{}: {difference}", sent.request)));
        }
        if is_wanted {
            report.add("kumactl", &format!("kumactl {}", command.kumactl), requests);
        }
        if let Some(program) = kodiak.filter(|_| is_wanted) {
            let arguments = arguments(command, folder.path())?;
            let ran = start(program, &arguments, folder.path())?;
            report.add(
                "kodiak",
                &format!("kodiak {}", command.kumactl),
                ran.differences(command.kodiak.exit, &command.kodiak.prints),
            );
        }
    }
    Ok(())
}

pub(crate) fn arguments(command: &Recorded, folder: &Path) -> anyhow::Result<Vec<String>> {
    let file = folder.join("resource.json");
    if let Some(content) = &command.file {
        std::fs::write(&file, content.to_string())?;
    }
    let (file, folder) = (file.display().to_string(), folder.display().to_string());
    let words = command.kumactl.split_whitespace();
    Ok(words.map(|word| word.replace("FILE", &file).replace("DIR", &folder)).collect())
}

pub(crate) struct Ran {
    pub(crate) exit: Option<i32>,
    pub(crate) printed: String,
}

impl Ran {
    pub(crate) fn differences(&self, exit: i32, prints: &[String]) -> Vec<String> {
        let mut differences = Vec::new();
        if self.exit != Some(exit) {
            differences.push(format!("exit code: expected {exit}, found {:?}: {}", self.exit, self.printed.trim()));
        }
        let missing = prints.iter().filter(|part| !self.printed.contains(part.as_str()));
        differences.extend(missing.map(|part| format!("does not print {part:?}: {}", self.printed.trim())));
        differences
    }
}

/// Runs `kodiak` with a configuration of its own.
fn start(program: &Path, arguments: &[String], home: &Path) -> anyhow::Result<Ran> {
    let mut command = Command::new(program);
    command.args(arguments).env("KODIAK_CONFIG", home.join("config")).env("HOME", home).env("NO_COLOR", "1");
    command.current_dir(home);
    output(&mut command, program)
}

pub(crate) fn output(command: &mut Command, program: &Path) -> anyhow::Result<Ran> {
    let ran = command.output().with_context(|| program.display().to_string())?;
    let printed = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    Ok(Ran { exit: ran.status.code(), printed })
}

/// Path of a program in a folder.
pub(crate) fn program(folder: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let path = folder.join(name);
    anyhow::ensure!(path.is_file(), "{} does not exist", path.display());
    Ok(path)
}
