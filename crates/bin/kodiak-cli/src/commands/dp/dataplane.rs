//! The file with the Dataplane: filled in, read and checked as the control plane would.

use std::path::Path;

use kodiak_dp::run::Proxy;
use kodiak_model::Place;
use kodiak_terminal::usage;

use crate::documents::{Checkup, Names, check, read_template};
use crate::report;
use crate::session::Session;

const KIND: &str = "Dataplane";

/// `None` when something is wrong with it, which is on the terminal then.
pub(super) fn read(path: &Path, vars: &[(String, String)], session: &Session) -> anyhow::Result<Option<Proxy>> {
    let terminal = session.terminal;
    let (files, faults) = read_template(path, vars, terminal)?;
    if !faults.is_empty() {
        terminal.rendered(&report::findings(&files, &faults, terminal.color));
        return Ok(None);
    }
    // Which zone it is, only the control plane knows.
    let Checkup { resources, findings } = check(&files, &Names { mesh: "default" }, &Place::Global);
    if !findings.is_empty() {
        terminal.rendered(&report::findings(&files, &findings, terminal.color));
        return Ok(None);
    }
    let [resource] = resources.as_slice() else {
        let count = resources.len();
        return Err(usage(format!("{} holds {count} resources; a proxy is one {KIND}", path.display())));
    };
    if resource.checked.kind.name != KIND {
        let kind = resource.checked.kind.name;
        return Err(usage(format!("{} holds a {kind}; a proxy is a {KIND}", path.display())));
    }
    for warning in &resource.checked.warnings {
        terminal.remark(&format!("Warning: {warning}"));
    }
    let text = String::from_utf8(resource.body())?;
    let (mesh, name) = (resource.checked.mesh.clone(), resource.checked.name.clone());
    Ok(Some(Proxy { mesh, name, resource: Some(text) }))
}
