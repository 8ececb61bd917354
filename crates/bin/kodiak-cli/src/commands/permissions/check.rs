//! `kodiak permissions check`: who loses access, by which rule, and how often they called.

use jiff::Timestamp;
use kodiak_inspection::calls::{DeniedTraffic, LostReason, PermissionCheck};
use kodiak_model::Place;
use kodiak_terminal::{Exit, Table, usage};
use serde_json::{Value, json};

use crate::commands::graph;
use crate::documents::{Checkup, FileArgs, FileResource, Names, check};
use crate::report::{self, Output, count};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak permissions check                           observed calls that the current permissions deny
  kodiak permissions check --enforced                ... that they would deny with strict mutual TLS
  kodiak permissions check -f permissions.yaml       callers that would lose access if the files were applied
  kodiak permissions check -f new/ --strict          for a pipeline that allows no loss at all
  kodiak permissions check --shadow-deny             callers that would lose access if AllowWithShadowDeny denied
  kodiak permissions check --shadow                  callers that would lose access by policies with kuma.io/effect: shadow

Callers are grouped by service, and rules for many callers or destinations are one line. The files are applied on top of
the stored mesh; nothing is stored. Traffic counts as far as the control plane has observed it: `kodiak permissions
observed` shows it with its window.

Exit codes: 0 no observed caller loses access, 4 one does; with --strict, 4 if any caller loses access, observed or not.
Others as for all commands.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command")]
pub(crate) struct Args {
    #[command(flatten)]
    files: FileArgs,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Check as if mutual TLS were strict and rolled out, so that permissions are enforced
    #[arg(long)]
    enforced: bool,

    /// Check as if AllowWithShadowDeny denied
    #[arg(long)]
    shadow_deny: bool,

    /// Check as if shadow policies were in force
    #[arg(long)]
    shadow: bool,

    /// Exit with 4 if any caller loses access, observed or not
    #[arg(long)]
    strict: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mesh = session.mesh(args.mesh.as_deref())?;
    let Some(resources) = read(args, &mesh, session)? else { return Ok(Exit::Refused) };
    let query = [("enforced", args.enforced), ("shadow", args.shadow), ("shadowDeny", args.shadow_deny)]
        .map(|(name, is)| (name, if is { "true" } else { "false" }));
    let change = json!({ "resources": resources });
    let found: PermissionCheck = session.client()?.check_permissions(&mesh, &change, &query).await?;
    let is_change = !resources.is_empty() || args.enforced || args.shadow || args.shadow_deny;
    session.terminal.data(&args.output.show(&found, || text(&found, is_change))?)?;
    let fails = found.loses_traffic() || (args.strict && !found.lost.is_empty());
    Ok(if fails { Exit::Negative } else { Exit::Fine })
}

/// Documents of the files. `None` if a file is invalid.
fn read(args: &Args, mesh: &str, session: &Session) -> anyhow::Result<Option<Vec<Value>>> {
    let (files, mut findings) = args.files.read(session.terminal)?;
    let mut resources = Vec::new();
    if findings.is_empty() {
        Checkup { resources, findings } = check(&files, &Names { mesh }, &Place::Global);
    }
    if !findings.is_empty() {
        session.terminal.rendered(&report::findings(&files, &findings, session.terminal.color));
        return Ok(None);
    }
    let other = resources.iter().find(|one| !one.checked.mesh.is_empty() && one.checked.mesh != *mesh);
    if let Some(other) = other {
        let (kind, name, of) = (other.checked.kind.name, &other.checked.name, &other.checked.mesh);
        return Err(usage(format!("{kind} {name:?} is of mesh {of:?}; check one mesh at a time, with -m MESH")));
    }
    Ok(Some(resources.iter().map(FileResource::document).collect()))
}

fn text(found: &PermissionCheck, is_change: bool) -> String {
    let mut parts = Vec::new();
    if !found.lost.is_empty() {
        let mut table = Table::new(["CLIENTS", "LOSE ACCESS TO", "RULE"]);
        for lost in &found.lost {
            table.row([graph::names(&lost.clients), graph::names(&lost.destinations), rule(&lost.reason)]);
        }
        parts.push(table.show());
    }
    if !found.observed.is_empty() {
        let mut table =
            Table::new(["OBSERVED CLIENT", "DESTINATION", "REQUESTS", "FIRST SEEN", "LAST SEEN", "DENIED", "RULE"]);
        for denied in &found.observed {
            table.row([
                client(denied),
                denied.destination.clone(),
                denied.requests.to_string(),
                time(denied.first_seen),
                time(denied.last_seen),
                if denied.lost || !is_change { "yes" } else { "already" }.to_owned(),
                rule(&denied.reason),
            ]);
        }
        parts.push(table.show());
    }
    parts.push(summary(found, is_change));
    parts.join("\n\n")
}

fn client(denied: &DeniedTraffic) -> String {
    if denied.dataplanes.is_empty() {
        return denied.client.clone();
    }
    format!("{} ({})", denied.client, denied.dataplanes.join(", "))
}

fn rule(reason: &LostReason) -> String {
    match reason {
        LostReason::Denied { policy } => policy.clone(),
        LostReason::NotAllowed => "not allowed by any".to_owned(),
        LostReason::Tls => "TLS of the call".to_owned(),
    }
}

fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn summary(found: &PermissionCheck, is_change: bool) -> String {
    let denied = found.observed.iter().filter(|denied| denied.lost).count();
    let mesh = &found.mesh;
    let mut lines = Vec::new();
    if !found.enforced {
        lines.push(format!(
            "Mesh {mesh} does not enforce permissions, because mutual TLS is not strict: pass --enforced to check as if it were"
        ));
    }
    lines.push(match (denied, found.lost.is_empty(), is_change) {
        (0, true, true) => format!("No caller in mesh {mesh} loses access"),
        (0, false, _) => format!("Callers in mesh {mesh} lose access, but none of them was observed to call"),
        (0, true, false) => format!("No observed call in mesh {mesh} is denied"),
        (denied, _, true) => {
            format!("{} in mesh {mesh} would lose access", count(denied, "observed caller", "observed callers"))
        }
        (denied, _, false) => {
            format!("{} in mesh {mesh} denied", count(denied, "observed caller is", "observed callers are"))
        }
    });
    lines.push(match (found.since, found.until) {
        (Some(since), Some(until)) => format!("Traffic was observed from {} to {}", time(since), time(until)),
        _ => "No traffic was observed, so nothing is known about actual callers".to_owned(),
    });
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use kodiak_inspection::calls::{LostCall, Names};

    use super::*;

    fn denied(client: &str, requests: u64, lost: bool) -> DeniedTraffic {
        DeniedTraffic {
            client: client.to_owned(),
            dataplanes: Vec::new(),
            destination: "db".to_owned(),
            reason: LostReason::NotAllowed,
            lost,
            requests,
            first_seen: Timestamp::UNIX_EPOCH,
            last_seen: Timestamp::from_second(60).unwrap(),
        }
    }

    fn found() -> PermissionCheck {
        PermissionCheck {
            mesh: "default".to_owned(),
            enforced: true,
            since: Some(Timestamp::UNIX_EPOCH),
            until: Some(Timestamp::from_second(3600).unwrap()),
            lost: vec![LostCall {
                clients: Names::AllExcept(vec!["web".to_owned()]),
                destinations: Names::Only(vec!["db".to_owned()]),
                reason: LostReason::Denied { policy: "kri_mtp_default___p_".to_owned() },
            }],
            observed: vec![denied("legacy", 12, true), denied("batch", 1, false)],
        }
    }

    #[test]
    fn shows_losses_and_observed_callers() {
        expect![[r#"
            CLIENTS          LOSE ACCESS TO   RULE
            all except web   db               kri_mtp_default___p_

            OBSERVED CLIENT   DESTINATION   REQUESTS   FIRST SEEN             LAST SEEN              DENIED    RULE
            legacy            db            12         1970-01-01T00:00:00Z   1970-01-01T00:01:00Z   yes       not allowed by any
            batch             db            1          1970-01-01T00:00:00Z   1970-01-01T00:01:00Z   already   not allowed by any

            1 observed caller in mesh default would lose access
            Traffic was observed from 1970-01-01T00:00:00Z to 1970-01-01T01:00:00Z"#]]
        .assert_eq(&text(&found(), true));
    }

    #[test]
    fn says_that_permissions_are_not_enforced() {
        let open = PermissionCheck {
            enforced: false,
            lost: Vec::new(),
            observed: Vec::new(),
            since: None,
            until: None,
            ..found()
        };
        let text = text(&open, false);
        assert!(text.starts_with("Mesh default does not enforce permissions"), "{text}");
        assert!(text.ends_with("so nothing is known about actual callers"), "{text}");
    }
}
