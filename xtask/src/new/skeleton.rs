//! Writes a folder from templates.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::name::KindName;
use super::registration;
use crate::families::{self, Family};
use crate::fmt::EDITION;
use crate::workspace::Workspace;

/// Templates, their values and the target folder.
pub(super) struct Skeleton<'a> {
    pub(super) name: &'a KindName,
    pub(super) short: String,
    pub(super) family: &'static Family,
    /// Paths in the new folder, with their templates.
    pub(super) templates: &'static [(&'static str, &'static str)],
    /// Values of the `{{placeholders}}` in templates, in addition to the names.
    pub(super) values: Vec<(&'static str, String)>,
}

impl Skeleton<'_> {
    /// Writes everything, or nothing when a file exists. Returns the folder.
    pub(super) fn write(&self, workspace: &Workspace, taken: &[Taken]) -> Result<String> {
        let module = self.name.snake_case();
        let Family { folder: family, list, listing } = self.family;
        let folder = format!("{family}/{module}");
        if workspace.root.join(&folder).exists() {
            bail!("{} exists already: {folder}", self.name.as_str());
        }
        check_short(&self.short, taken)?;
        let text = fs::read_to_string(workspace.root.join(list)).with_context(|| format!("cannot read {list}"))?;
        let registered = registration::register(&text, &module, *listing).with_context(|| (*list).to_owned())?;
        let mut files = vec![((*list).to_owned(), formatted(workspace, list, registered)?)];
        for (path, template) in self.templates {
            let path = format!("{folder}/{path}");
            let text = formatted(workspace, &path, self.filled(template))?;
            files.push((path, text));
        }
        for (path, text) in files {
            let file = workspace.root.join(&path);
            if let Some(parent) = file.parent() {
                fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))?;
            }
            fs::write(&file, text).with_context(|| format!("cannot write {path}"))?;
        }
        Ok(folder)
    }

    fn filled(&self, template: &str) -> String {
        let names = [
            ("Kind", self.name.as_str().to_owned()),
            ("name", self.name.snake_case().replace('_', "-")),
            ("path", self.name.plural_path()),
            ("short", self.short.clone()),
        ];
        let values = names.iter().chain(&self.values);
        values.fold(template.to_owned(), |text, (key, value)| text.replace(&format!("{{{{{key}}}}}"), value))
    }
}

/// The `mod.rs` of an existing folder, to find taken names and numbers.
pub(super) struct Taken {
    pub(super) module: String,
    pub(super) text: String,
}

pub(super) fn taken(workspace: &Workspace) -> Result<Vec<Taken>> {
    let mut found = Vec::new();
    for Family { folder, .. } in families::ALL {
        for entry in fs::read_dir(workspace.root.join(folder)).with_context(|| format!("cannot read {folder}"))? {
            let entry = entry?;
            if let Ok(text) = fs::read_to_string(entry.path().join("mod.rs")) {
                found.push(Taken { module: entry.file_name().to_string_lossy().into_owned(), text });
            }
        }
    }
    Ok(found)
}

/// Rejects a short name that another kind has.
fn check_short(short: &str, taken: &[Taken]) -> Result<()> {
    if short.is_empty() || !short.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()) {
        bail!("the short name {short:?} must be lower case letters and digits, such as mt");
    }
    match taken.iter().find(|taken| taken.text.contains(&format!("\"{short}\""))) {
        Some(Taken { module, .. }) => bail!("the short name {short} is taken by {module}; choose another with --short"),
        None => Ok(()),
    }
}

/// Formatted Rust text; other text unchanged. From standard input rustfmt formats one file and not its modules.
fn formatted(workspace: &Workspace, path: &str, text: String) -> Result<String> {
    if Path::new(path).extension().is_none_or(|extension| extension != "rs") {
        return Ok(text);
    }
    let mut child = Command::new("rustfmt")
        .args(EDITION)
        .current_dir(&workspace.root)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start rustfmt; add it with `rustup component add rustfmt`")?;
    child.stdin.take().context("rustfmt was started with a pipe")?.write_all(text.as_bytes())?;
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("rustfmt cannot parse {path}; fix it first");
    }
    String::from_utf8(output.stdout).context("rustfmt printed something that is not text")
}
