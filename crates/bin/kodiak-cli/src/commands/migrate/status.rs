//! `kodiak migrate services status`.

use kodiak_model::{GoDuration, kinds::mesh::MeshServicesMode};
use kodiak_terminal::{Exit, Table};

use super::answers::{Consumer, Lists, Outcome, ServiceStanding};
use super::gather::{Gathered, Seen, gather};
use crate::report::{Output, count};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate services status
  kodiak migrate services status -m demo --watch 1m          consumers of legacy clusters within a minute
  kodiak migrate services status -o json | jq '.consumers[] | select(.traffic.old != {}) | .name'

  MODE        meshServices.mode, and what the Dataplane lists
  OLD, NEW    reachable kuma.io/service services, and reachable ports of MeshServices and other destinations
  OLD TRAFFIC requests (or connections) to legacy clusters since the proxy started, by Envoy's statistics, and
              connections open now; - when the proxy is offline or does not answer
  POLICIES    for its outbounds that use kuma.io/service only; ROUTES that use kuma.io/service
  CROSS-ZONE  services that it also calls in other zones: with a MeshService, calls would stay in one zone")]
pub(crate) struct Args {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Read the statistics of proxies twice, this long apart, and show the traffic in between
    #[arg(long, value_name = "DURATION", value_parser = kodiak_terminal::duration)]
    watch: Option<GoDuration>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let gathered = gather(&client, session, &mesh, args.watch.and_then(GoDuration::to_std)).await?;
    session.terminal.data(&args.output.show(&gathered, || text(&gathered, args.watch.is_some()))?)?;
    Ok(Exit::Fine)
}

fn text(gathered: &Gathered, watched: bool) -> String {
    let mut table = Table::new([
        "DATAPLANE",
        "MODE",
        "OLD",
        "NEW",
        "OLD TRAFFIC",
        "NEW TRAFFIC",
        "POLICIES",
        "ROUTES",
        "CROSS-ZONE",
    ]);
    for Seen { consumer, traffic, .. } in &gathered.consumers {
        let (old, new) = match traffic {
            Some(traffic) => (traffic.all_old().show(), traffic.new.show()),
            None => ("-".to_owned(), "-".to_owned()),
        };
        table.row([
            consumer.name.clone(),
            mode(consumer),
            consumer.old.len().to_string(),
            consumer.new.to_string(),
            old,
            new,
            consumer.policies.len().to_string(),
            consumer.routes.len().to_string(),
            if consumer.cross_zone.is_empty() { "-".to_owned() } else { consumer.cross_zone.join(",") },
        ]);
    }
    let table = if gathered.consumers.is_empty() { String::new() } else { table.show() + "\n\n" };
    table + &summary(gathered, watched).join("\n")
}

/// Mode of one consumer.
fn mode(consumer: &Consumer) -> String {
    let what = match (consumer.mode.known(), consumer.lists) {
        (Some(MeshServicesMode::Disabled), _) | (_, Lists::Nothing) => "",
        (_, Lists::Services) => ", lists services",
        (_, Lists::Backends) => ", lists backends",
        (_, Lists::Outbounds) => ", lists outbounds",
    };
    let unlisted = consumer.mode.is(MeshServicesMode::ReachableBackends) && consumer.lists == Lists::Nothing;
    format!("{}{}", consumer.mode, if unlisted { ", no list" } else { what })
}

fn summary(gathered: &Gathered, watched: bool) -> Vec<String> {
    let Gathered { standing, consumers } = gathered;
    let mesh = &standing.mesh;
    let used = consumers.iter().filter(|seen| seen.traffic.as_ref().is_some_and(|traffic| !traffic.old.is_empty()));
    let (used, unknown) = (used.count(), consumers.iter().filter(|seen| seen.traffic.is_none()).count());
    let when = if watched { "while they were watched" } else { "since they started" };
    let mut lines = vec![format!(
        "{} in mesh {mesh} ({}): {used} called old clusters {when}, {} did not, {unknown} did not answer",
        count(consumers.len(), "proxy", "proxies"),
        standing.mode,
        consumers.len() - used - unknown,
    )];
    let policies = |outcome: Outcome| standing.policies.iter().filter(|policy| policy.has(outcome)).count();
    let (convertible, unclear, routes) =
        (policies(Outcome::Converted), policies(Outcome::Unclear), policies(Outcome::Examine));
    if convertible > 0 {
        let policies = count(convertible, "policy uses", "policies use");
        lines.push(format!("{policies} kuma.io/service only: kodiak migrate services convert --mesh {mesh}"));
    }
    if unclear > 0 {
        lines.push(format!("{} ambiguous kuma.io/service references", count(unclear, "policy has", "policies have")));
    }
    if routes > 0 {
        lines.push(format!(
            "{} kuma.io/service, and routes are not converted",
            count(routes, "route uses", "routes use")
        ));
    }
    let missing = standing.services.iter().filter(|service| service.objects.is_empty()).count();
    if missing > 0 && !standing.mode.is(MeshServicesMode::Disabled) {
        lines.push(format!("{} no MeshService", count(missing, "service has", "services have")));
    }
    let spread: Vec<&str> = spread(&standing.services).collect();
    if !spread.is_empty() {
        let services = count(spread.len(), "service is", "services are");
        lines
            .push(format!("{services} served in several zones, without a MeshMultiZoneService: {}", spread.join(", ")));
    }
    lines.push(format!("Next step: kodiak migrate services plan --mesh {mesh}"));
    lines
}

/// Services whose traffic would stay in one zone.
fn spread(services: &[ServiceStanding]) -> impl Iterator<Item = &str> {
    services.iter().filter(|one| one.facts().stays_in_one_zone()).map(|one| one.service.as_str())
}
