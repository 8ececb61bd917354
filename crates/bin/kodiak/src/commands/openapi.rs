//! `kodiak openapi`: the document of the REST API, without a control plane.

use kodiak_terminal::Exit;

use crate::session::Session;

pub(super) fn run(session: &Session) -> anyhow::Result<Exit> {
    session.terminal.data(&serde_json::to_string_pretty(&kodiak_api::openapi_document())?)?;
    Ok(Exit::Fine)
}
