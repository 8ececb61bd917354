//! `kodiak reachability`: destinations that are trimmed from proxies, or would be.

use kodiak_inspection::calls::{Consumer, Exempt, ModeOrigin};
use kodiak_terminal::{Exit, Table};
use serde_json::json;

use crate::commands::graph;
use crate::report::{Output, count};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak reachability
  kodiak reachability web                       proxies with web in their names
  kodiak reachability --shadow-deny             what would be trimmed if AllowWithShadowDeny denied
  kodiak reachability --used                    only proxies that call destinations which are trimmed, or would be
  kodiak reachability -o json | jq '.items[] | select(.used != []) | .dataplane'

  MODE        off, shadow or on, and where it comes from: setting, mesh or dataplane (label kodiak.io/reachability)
  CONFIGURED  destinations of the proxy without trimming
  CALLABLE    those that permissions allow it to call
  TRIMMED     those that are removed (mode on), or would be; - when the proxy keeps all of them: permissions are not
              enforced (open), its traffic is not redirected (outbounds), or its Dataplane has a reachable list (list)
  USED        trimmed destinations that its service has called, with the number of requests

Before you set the mode to on, nothing should be in USED: allow these calls, or find out that nobody needs them.")]
pub struct Args {
    /// Only proxies with this text in their names
    #[arg(value_name = "NAME")]
    name: Option<String>,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Only proxies whose service has called a destination that is trimmed, or would be
    #[arg(long)]
    used: bool,

    /// As if AllowWithShadowDeny denied: destinations that are trimmed once these permissions are enforced
    #[arg(long)]
    shadow_deny: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let name = args.name.as_deref().map(|name| ("name", name));
    let query: Vec<_> = name.into_iter().chain(args.shadow_deny.then_some(("shadowDeny", "true"))).collect();
    let mut consumers: Vec<Consumer> = session.client()?.reachability(&mesh, &query).await?;
    consumers.retain(|consumer| !args.used || !consumer.used.is_empty());
    let document = json!({ "mesh": mesh, "items": consumers });
    session.terminal.data(&args.output.show(&document, || table(&consumers, &mesh))?)?;
    Ok(Exit::Fine)
}

fn table(consumers: &[Consumer], mesh: &str) -> String {
    let mut table =
        Table::new(["DATAPLANE", "SERVICE", "MODE", "CONFIGURED", "CALLABLE", "TRIMMED", "DESTINATIONS", "USED"]);
    for consumer in consumers {
        let names = if consumer.trimmed == 0 { "-".to_owned() } else { graph::names(&consumer.trimmed_destinations) };
        table.row([
            consumer.dataplane.clone(),
            consumer.service.clone(),
            mode(consumer),
            consumer.configured.to_string(),
            consumer.callable.to_string(),
            trimmed(consumer),
            names,
            used(consumer),
        ]);
    }
    let used = consumers.iter().filter(|consumer| !consumer.used.is_empty()).count();
    let all = count(consumers.len(), "proxy", "proxies");
    let summary = match (consumers.len(), used) {
        (0, _) => format!("No proxies in mesh {mesh}"),
        (_, 0) => format!("{all} in mesh {mesh}; none has called a destination that is trimmed, or would be"),
        (_, used) => {
            let used = count(used, "has", "have");
            format!("{all} in mesh {mesh}; {used} called destinations that are trimmed, or would be")
        }
    };
    if consumers.is_empty() { summary } else { format!("{}\n\n{summary}", table.show()) }
}

fn mode(consumer: &Consumer) -> String {
    let source = match consumer.source {
        ModeOrigin::Setting => "setting",
        ModeOrigin::Mesh => "mesh",
        ModeOrigin::Dataplane => "dataplane",
    };
    format!("{} ({source})", consumer.mode)
}

fn trimmed(consumer: &Consumer) -> String {
    match consumer.exempt {
        None => consumer.trimmed.to_string(),
        Some(Exempt::NotEnforced) => "- (open)".to_owned(),
        Some(Exempt::NotTransparent) => "- (outbounds)".to_owned(),
    }
}

fn used(consumer: &Consumer) -> String {
    let used: Vec<String> =
        consumer.used.iter().map(|used| format!("{} ({})", used.destination, used.requests)).collect();
    if used.is_empty() { "-".to_owned() } else { used.join(", ") }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use jiff::Timestamp;
    use kodiak_inspection::calls::{Names, UsedDestination};

    use super::*;

    #[test]
    fn shows_trimmed_destinations_and_those_in_use() {
        let shadow = Consumer {
            dataplane: "web-1".to_owned(),
            service: "web".to_owned(),
            mode: "shadow".to_owned(),
            source: ModeOrigin::Mesh,
            exempt: None,
            configured: 4,
            callable: 1,
            trimmed: 3,
            trimmed_destinations: Names::AllExcept(vec!["backend".to_owned()]),
            used: vec![UsedDestination { destination: "db".to_owned(), requests: 7, last_seen: Timestamp::UNIX_EPOCH }],
        };
        let listed = Consumer {
            dataplane: "old-1".to_owned(),
            service: "old".to_owned(),
            exempt: Some(Exempt::NotTransparent),
            trimmed: 0,
            trimmed_destinations: Names::Only(Vec::new()),
            used: Vec::new(),
            ..shadow.clone()
        };
        expect![[r#"
            DATAPLANE   SERVICE   MODE            CONFIGURED   CALLABLE   TRIMMED         DESTINATIONS         USED
            web-1       web       shadow (mesh)   4            1          3               all except backend   db (7)
            old-1       old       shadow (mesh)   4            1          - (outbounds)   -                    -

            2 proxies in mesh default; 1 has called destinations that are trimmed, or would be"#]]
        .assert_eq(&table(&[shadow, listed], "default"));
        assert_eq!(table(&[], "default"), "No proxies in mesh default");
    }
}
