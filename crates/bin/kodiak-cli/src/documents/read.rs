//! Reads the arguments of `-f`: files, folders, standard input.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use kodiak_terminal::{Terminal, usage};

use super::template::{self, Variables};
use super::{Finding, Severity, Spot};

/// Larger files are rejected as a mistake.
const LARGEST_FILE: u64 = 256 << 20;

/// Source of the documents.
#[derive(Debug, Clone, clap::Args)]
pub struct FileArgs {
    /// File, folder (its *.yaml, *.yml and *.json, sorted) or - for standard input. May be repeated
    #[arg(short = 'f', long = "file", value_name = "FILE|DIR|-")]
    pub(crate) files: Vec<PathBuf>,

    /// Include subfolders
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,

    /// Value for the placeholder `{{ KEY }}` in the files. May be repeated; without it, placeholders are not replaced
    #[arg(short = 'v', long = "var", value_name = "KEY=VALUE", value_parser = kodiak_terminal::key_value)]
    pub(crate) vars: Vec<(String, String)>,
}

/// File with its placeholders replaced.
#[derive(Debug, Clone)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
}

impl FileArgs {
    /// Reads all files. Findings are about placeholders.
    pub(crate) fn read(&self, terminal: Terminal) -> anyhow::Result<(Vec<SourceFile>, Vec<Finding>)> {
        let mut files = Vec::new();
        for path in &self.files {
            if path.as_os_str() == "-" {
                files.push(standard_input()?);
                continue;
            }
            refuse_url(path)?;
            if path.is_dir() {
                for file in folder(path, self.recursive)? {
                    files.push(read(&file)?);
                }
            } else {
                files.push(read(path)?);
            }
        }
        let findings = if self.vars.is_empty() { Vec::new() } else { fill_in(&mut files, &self.vars, terminal) };
        Ok((files, findings))
    }
}

/// Reads one file as a template, even without variables. Findings are about placeholders.
pub(crate) fn read_template(
    path: &Path,
    vars: &[(String, String)],
    terminal: Terminal,
) -> anyhow::Result<(Vec<SourceFile>, Vec<Finding>)> {
    let mut files = vec![if path.as_os_str() == "-" { standard_input()? } else { read(path)? }];
    let findings = fill_in(&mut files, vars, terminal);
    Ok((files, findings))
}

/// As [`read_template`], for a text with a name for findings.
pub(crate) fn fill_template(
    name: &str,
    text: String,
    vars: &[(String, String)],
    terminal: Terminal,
) -> (Vec<SourceFile>, Vec<Finding>) {
    let mut files = vec![SourceFile { name: name.to_owned(), text }];
    let findings = fill_in(&mut files, vars, terminal);
    (files, findings)
}

fn fill_in(files: &mut [SourceFile], vars: &[(String, String)], terminal: Terminal) -> Vec<Finding> {
    let variables: Variables = vars.iter().cloned().collect();
    let mut findings = Vec::new();
    let mut used = BTreeSet::new();
    for (n, file) in files.iter_mut().enumerate() {
        match template::fill(&file.text, &variables, &mut used) {
            Ok(filled) => {
                if filled.lines().count() != file.text.lines().count() {
                    // Line numbers are no longer those of the file itself.
                    file.name.push_str(" (with its variables)");
                }
                file.text = filled;
            }
            Err(faults) => findings.extend(faults.into_iter().map(|fault| Finding {
                file: n,
                spot: Spot::at(fault.mark),
                subject: "cannot fill in the variables".to_owned(),
                path: String::new(),
                message: fault.message,
                severity: Severity::Error,
            })),
        }
    }
    if findings.is_empty() {
        for name in variables.keys().filter(|name| !used.contains(*name)) {
            terminal.remark(&format!("Warning: the variable {name:?} is used nowhere"));
        }
    }
    findings
}

fn standard_input() -> anyhow::Result<SourceFile> {
    let mut text = String::new();
    let stdin = std::io::stdin().lock();
    let read = stdin.take(LARGEST_FILE + 1).read_to_string(&mut text);
    read.map_err(|error| usage(format!("cannot read standard input: {error}")))?;
    bounded("standard input", text.len() as u64)?;
    Ok(SourceFile { name: "<stdin>".to_owned(), text })
}

fn read(path: &Path) -> anyhow::Result<SourceFile> {
    let cannot = |error: std::io::Error| usage(format!("cannot read {}: {error}", path.display()));
    bounded(&path.display().to_string(), std::fs::metadata(path).map_err(cannot)?.len())?;
    let text = std::fs::read_to_string(path).map_err(cannot)?;
    Ok(SourceFile { name: path.display().to_string(), text })
}

fn bounded(name: &str, size: u64) -> anyhow::Result<()> {
    if size > LARGEST_FILE {
        return Err(usage(format!("{name} is larger than {} MiB; split it", LARGEST_FILE >> 20)));
    }
    Ok(())
}

/// Rejects URLs, which kumactl accepts: nobody would have reviewed resources that are fetched and applied at once.
fn refuse_url(path: &Path) -> anyhow::Result<()> {
    let text = path.to_string_lossy();
    if text.starts_with("http://") || text.starts_with("https://") {
        return Err(usage(format!("URLs are not read; fetch it first: curl -fsS {text} | kodiak apply -f -")));
    }
    Ok(())
}

fn folder(path: &Path, recursive: bool) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        let cannot = |error: std::io::Error| usage(format!("cannot read the folder {}: {error}", folder.display()));
        for entry in std::fs::read_dir(&folder).map_err(cannot)? {
            let entry = entry.map_err(cannot)?.path();
            // Links to folders are not followed, so that a cycle of links ends.
            if entry.is_dir() {
                if recursive && !entry.is_symlink() {
                    folders.push(entry);
                }
            } else if entry.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
                files.push(entry);
            }
        }
    }
    if files.is_empty() {
        let deeper = if recursive { "" } else { "; pass -R to look into its folders" };
        return Err(usage(format!("there is no *.yaml, *.yml or *.json in {}{deeper}", path.display())));
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(files: &[&Path], recursive: bool) -> FileArgs {
        FileArgs { files: files.iter().map(|path| (*path).to_owned()).collect(), recursive, vars: Vec::new() }
    }

    const QUIET: Terminal = Terminal { quiet: true, color: false };

    #[test]
    fn reads_the_documents_of_a_folder_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        std::fs::create_dir(root.join("deep")).unwrap();
        for name in ["b.yml", "a.yaml", "c.json", "readme.md", "deep/d.yaml"] {
            std::fs::write(root.join(name), name).unwrap();
        }
        let read = |recursive| {
            let (files, _) = args(&[root], recursive).read(QUIET).unwrap();
            files.into_iter().map(|file| file.text).collect::<Vec<_>>()
        };
        assert_eq!(read(false), ["a.yaml", "b.yml", "c.json"]);
        assert_eq!(read(true), ["a.yaml", "b.yml", "c.json", "deep/d.yaml"]);
    }

    #[test]
    fn names_the_file_that_cannot_be_read() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path| args(&[path], false).read(QUIET).unwrap_err().to_string();
        assert!(error(folder.path()).contains("pass -R"));
        assert!(error(&folder.path().join("none.yaml")).contains("none.yaml"));
        assert!(error(Path::new("https://example.com/x.yaml")).contains("curl"));
    }
}
