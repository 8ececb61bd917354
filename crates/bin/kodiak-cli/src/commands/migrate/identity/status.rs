//! `kodiak migrate identity status`.

use std::fmt::Write as _;
use std::time::Duration;

use kodiak_client::Client;
use kodiak_terminal::{Exit, Table};

use super::super::of_mesh;
use crate::identities::{IdentityStatus, MeshIdentities, ProxyIdentity};
use crate::report::{Output, count};
use crate::session::Session;

/// Interval of `--watch`.
const INTERVAL: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate identity status
  kodiak migrate identity status -m demo --watch               until every connected proxy has its certificate
  kodiak migrate identity status -o json | jq '.proxies[] | select(.presentsLeaf | not) | .name'

  BUNDLE      the proxy trusts every CA of the target
  SAN         it expects the SPIFFE IDs of certificates of the target
  LEAF        its certificate is from the issuer of the target
  ACK         it acknowledged the current step
  IDENTITY    MeshIdentity or backend of its certificate; WANTED that of the target

With --watch, the exit code is 0 when the rollout is done, and 1 when a MeshIdentity failed.")]
pub(crate) struct Args {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Wait until the rollout is done, and print its progress
    #[arg(long)]
    watch: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let mut found = MeshIdentities::read(&client, &mesh).await.map_err(|error| of_mesh(error, &mesh))?;
    if args.watch {
        found = watch(&client, session, &mesh, found).await?;
    }
    session.terminal.data(&args.output.show(&found, || text(&found))?)?;
    match found.failed().next() {
        Some(identity) if args.watch => anyhow::bail!("{}", identity.failure()),
        Some(_) | None => Ok(Exit::Fine),
    }
}

/// Polls until the rollout is done. A control plane that restarts is asked again.
async fn watch(
    client: &Client,
    session: &Session,
    mesh: &str,
    mut found: MeshIdentities,
) -> anyhow::Result<MeshIdentities> {
    let mut shown = String::new();
    let mut show = |line: String| {
        if line != shown {
            session.terminal.remark(&line);
            shown = line;
        }
    };
    while !found.is_done() {
        show(progress_line(&found));
        tokio::time::sleep(INTERVAL).await;
        match MeshIdentities::read(client, mesh).await {
            Ok(next) => found = next,
            Err(error) if error.is_unreachable() => show(format!("{error}, retrying")),
            Err(error) => return Err(of_mesh(error, mesh)),
        }
    }
    Ok(found)
}

/// `Issue: 2/3 acknowledged, 1/3 present the wanted certificate; waiting for web-1 (has not acknowledged)`
fn progress_line(found: &MeshIdentities) -> String {
    let all = found.connected().count();
    let acknowledged = found.connected().filter(|proxy| proxy.acknowledged).count();
    let present = found.connected().filter(|proxy| proxy.presents_leaf || proxy.wanted.is_none()).count();
    let pending = found.identities.iter().any(|identity| identity.pending);
    let phase = match &found.rollout.phase {
        Some(phase) => phase,
        None if pending => "Pending",
        None => "Last step",
    };
    let mut line =
        format!("{phase}: {acknowledged}/{all} acknowledged, {present}/{all} present the wanted certificate");
    if let Some(first) = found.rollout.waiting.first() {
        let more = found.rollout.waiting_total.saturating_sub(1);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let _ = write!(line, "; waiting for {} ({}){more}", first.proxy, first.reason);
    }
    line
}

fn text(found: &MeshIdentities) -> String {
    let mut table = Table::new(["PROXY", "CONNECTED", "BUNDLE", "SAN", "LEAF", "ACK", "IDENTITY", "WANTED"]);
    for proxy in &found.proxies {
        table.row([
            proxy.name.clone(),
            if proxy.connected { "yes" } else { "no" }.to_owned(),
            tick(proxy.has_bundle),
            tick(proxy.expects_san),
            tick(proxy.presents_leaf),
            tick(proxy.acknowledged),
            found.issuer(&proxy.issuer).to_owned(),
            found.issuer(proxy.wanted.as_deref().unwrap_or_default()).to_owned(),
        ]);
    }
    let table = if found.proxies.is_empty() { String::new() } else { table.show() + "\n\n" };
    table + &summary(found).join("\n")
}

fn tick(has: bool) -> String {
    if has { "✓" } else { "-" }.to_owned()
}

fn summary(found: &MeshIdentities) -> Vec<String> {
    let mesh = &found.mesh;
    let mut lines = vec![match &found.rollout.phase {
        Some(phase) => format!("Mesh {mesh}: next phase is {phase} ({})", meaning(phase)),
        None if found.is_done() => format!("Mesh {mesh}: the rollout is done"),
        None if found.identities.iter().any(|identity| identity.pending) => {
            format!("Mesh {mesh}: the control plane has not added the last change of a MeshIdentity to the rollout yet")
        }
        None => {
            format!("Mesh {mesh}: last step; not every connected proxy has acknowledged it and has its certificate")
        }
    }];
    if found.rollout.waiting_total > 0 {
        lines.push(format!("Waiting for {}:", count(found.rollout.waiting_total, "proxy", "proxies")));
        lines.extend(found.rollout.waiting.iter().map(|one| format!("  {}: {}", one.proxy, one.reason)));
        let unnamed = found.rollout.waiting_total.saturating_sub(found.rollout.waiting.len());
        if unnamed > 0 {
            lines.push(format!("  and {unnamed} more"));
        }
    }
    if let Some(until) = &found.rollout.old_trust_until {
        lines.push(format!(
            "Old trust is kept until {until}, because of proxies that are not connected. Delete their Dataplanes to remove it now."
        ));
    }
    if !found.rollout.unreadable.is_empty() {
        lines.push(format!(
            "The rollout waits: the control plane cannot read its records {}. Certificates stay as they are.",
            found.rollout.unreadable.join(", ")
        ));
    }
    lines.extend(found.rollout.ignored.iter().cloned());
    if !found.rollout.from_agents.is_empty() {
        lines.push(format!(
            "Not ordered: SPIRE agents issue the certificates of {}, and decide when they change. Remove other trust last, when all proxies present them.",
            found.rollout.from_agents.join(", ")
        ));
    }
    if !found.rollout.relabelled.is_empty() {
        lines.push(format!(
            "Labels changed: {} present the SPIFFE ID by their labels before, until all clients expect the new one.",
            found.rollout.relabelled.join(", ")
        ));
    }
    let problems: Vec<&ProxyIdentity> = found.proxies.iter().filter(|proxy| proxy.problem.is_some()).collect();
    if !problems.is_empty() {
        lines.push(format!("No SPIFFE ID for {}:", count(problems.len(), "proxy", "proxies")));
        let problem =
            |proxy: &&ProxyIdentity| format!("  {}: {}", proxy.name, proxy.problem.as_deref().unwrap_or_default());
        lines.extend(problems.iter().map(problem));
    }
    let failing = found.proxies.iter().filter(|proxy| !proxy.renewal_error.is_empty());
    lines.extend(failing.map(|proxy| format!("{}: certificate not renewed: {}", proxy.name, proxy.renewal_error)));
    lines.extend(found.failed().map(IdentityStatus::failure));
    lines.push(format!("Next step: kodiak migrate identity plan --mesh {mesh}"));
    lines
}

/// Effect of the steps of a phase.
fn meaning(phase: &str) -> &'static str {
    match phase {
        "Trust" => "all proxies trust the CAs of new certificates",
        "Expect" => "clients expect the SPIFFE IDs of new certificates",
        "Issue" => "proxies present new certificates",
        "Encrypt" => "clients and servers change between plain text and mTLS",
        "Remove" => "SPIFFE IDs and CAs that are not in use any more are removed",
        _ => "unknown to this version of kodiak",
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn mesh() -> MeshIdentities {
        let web = "kri_mid_demo___web_";
        serde_json::from_value(json!({
            "mesh": "demo",
            "rollout": {
                "current": "a", "target": "b", "phase": "Issue",
                "waiting": [{ "proxy": "db-1", "reason": "has not acknowledged" }], "waitingTotal": 1,
            },
            "identities": [{ "name": "web", "kri": web, "ready": true, "selected": 2 }],
            "proxies": [
                { "name": "db-1", "connected": true, "issuer": "ca", "wanted": web, "acknowledged": false },
                {
                    "name": "web-1", "connected": true, "issuer": "ca", "wanted": web,
                    "hasBundle": true, "expectsSAN": true, "acknowledged": true,
                },
                { "name": "web-2", "connected": false, "wanted": "ca", "problem": "the Dataplane needs the label x" },
            ],
        }))
        .unwrap()
    }

    #[test]
    fn missing_proxies_are_named_with_reasons() {
        expect![[r#"
            PROXY   CONNECTED   BUNDLE   SAN   LEAF   ACK   IDENTITY   WANTED
            db-1    yes         -        -     -      -     ca         web
            web-1   yes         ✓        ✓     -      ✓     ca         web
            web-2   no          -        -     -      -     -          ca

            Mesh demo: next phase is Issue (proxies present new certificates)
            Waiting for 1 proxy:
              db-1: has not acknowledged
            No SPIFFE ID for 1 proxy:
              web-2: the Dataplane needs the label x
            Next step: kodiak migrate identity plan --mesh demo"#]]
        .assert_eq(&text(&mesh()));
        assert_eq!(
            progress_line(&mesh()),
            "Issue: 1/2 acknowledged, 0/2 present the wanted certificate; waiting for db-1 (has not acknowledged)"
        );
    }

    #[test]
    fn rollout_is_done_when_every_connected_proxy_presents_its_certificate() {
        let mut mesh = mesh();
        mesh.rollout.phase = None;
        assert!(!mesh.is_done());
        for proxy in &mut mesh.proxies {
            (proxy.acknowledged, proxy.presents_leaf) = (proxy.connected, proxy.connected);
        }
        assert!(mesh.is_done());
        mesh.identities[0].pending = true;
        assert!(!mesh.is_done());
    }

    #[test]
    fn reasons_without_a_proxy_are_shown() {
        let mut mesh = mesh();
        mesh.rollout.old_trust_until = Some("2026-01-01T00:00:00Z".to_owned());
        mesh.rollout.unreadable = vec!["mtls-rollout".to_owned()];
        mesh.rollout.ignored = vec!["MeshTrust \"junk\": spec.caBundles[0] is not trusted: x".to_owned()];
        mesh.rollout.from_agents = vec!["agents".to_owned()];
        mesh.rollout.relabelled = vec!["web-1".to_owned()];
        mesh.rollout.phase = None;
        let lines = summary(&mesh).join("\n");
        for part in [
            "SPIRE agents issue the certificates of agents",
            "Labels changed: web-1",
            "Old trust is kept until 2026-01-01T00:00:00Z",
            "cannot read its records mtls-rollout",
            "MeshTrust \"junk\"",
        ] {
            assert!(lines.contains(part), "{part}: {lines}");
        }
        assert!(!mesh.is_done(), "an unreadable record holds up the rollout");
    }

    #[test]
    fn failed_identity_is_an_error() {
        let mut mesh = mesh();
        assert_eq!(mesh.failed().count(), 0);
        let web = &mut mesh.identities[0];
        (web.ready, web.reason, web.message) = (false, Some("Provider".to_owned()), Some("no CA".to_owned()));
        assert!(summary(&mesh).contains(&r#"MeshIdentity "web" is not ready: Provider: no CA"#.to_owned()));
    }
}
