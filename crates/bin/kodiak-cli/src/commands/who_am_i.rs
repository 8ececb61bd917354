//! `kodiak who-am-i`: the user that the control plane sees.

use kodiak_terminal::Exit;
use serde_json::Value;

use crate::session::Session;

pub async fn run(session: &Session) -> anyhow::Result<Exit> {
    let user = session.client()?.who_am_i().await?;
    let groups = user.get("groups").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    let groups: Vec<_> = groups.collect();
    session.terminal.result(&format!("name: {}", user.get("name").and_then(Value::as_str).unwrap_or_default()))?;
    session.terminal.result(&format!("groups: {}", groups.join(", ")))?;
    Ok(Exit::Fine)
}
