//! `kodiak openapi`: the document of the REST API, without a control plane.

use kodiak_terminal::{Exit, Terminal};

pub(crate) fn run(terminal: Terminal) -> anyhow::Result<Exit> {
    terminal.data(&serde_json::to_string_pretty(&kodiak_api::openapi_document())?)?;
    Ok(Exit::Fine)
}
