//! Reads the Dataplane from a file or a text, replaces placeholders and validates it.

use std::path::PathBuf;

use kodiak_dp::run::Proxy;
use kodiak_model::Place;
use kodiak_terminal::usage;

use crate::documents::{Checkup, Names, check, fill_template, read_template};
use crate::report;
use crate::session::Session;

const KIND: &str = "Dataplane";

/// Source of the Dataplane.
pub(super) enum Source {
    /// A file, or `-` for standard input.
    File(PathBuf),
    Text(String),
}

/// Prints the findings and returns `None` if the Dataplane is invalid.
pub(super) fn read(source: Source, vars: &[(String, String)], session: &Session) -> anyhow::Result<Option<Proxy>> {
    let terminal = session.terminal;
    let (shown, (files, faults)) = match source {
        Source::File(path) => (path.display().to_string(), read_template(&path, vars, terminal)?),
        Source::Text(text) => ("--dataplane".to_owned(), fill_template("--dataplane", text, vars, terminal)),
    };
    if !faults.is_empty() {
        terminal.rendered(&report::findings(&files, &faults, terminal.color));
        return Ok(None);
    }
    // Only the control plane knows the zone.
    let Checkup { resources, findings } = check(&files, &Names { mesh: "default" }, &Place::Global);
    if !findings.is_empty() {
        terminal.rendered(&report::findings(&files, &findings, terminal.color));
        return Ok(None);
    }
    let [resource] = resources.as_slice() else {
        let count = resources.len();
        return Err(usage(format!("{shown} holds {count} resources; a proxy is one {KIND}")));
    };
    if resource.checked.kind.name != KIND {
        let kind = resource.checked.kind.name;
        return Err(usage(format!("{shown} holds a {kind}; a proxy is a {KIND}")));
    }
    for warning in &resource.checked.warnings {
        terminal.remark(&format!("Warning: {warning}"));
    }
    let text = String::from_utf8(resource.body())?;
    let (mesh, name) = (resource.checked.mesh.clone(), resource.checked.name.clone());
    Ok(Some(Proxy { mesh, name, resource: Some(text) }))
}
