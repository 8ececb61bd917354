//! `kodiak migrate services plan`.

use std::fmt::Write as _;

use kodiak_migration::plan::{Call, Facts, Moving, Plan, plan};
use kodiak_model::{GoDuration, Word as _, kinds::mesh::MeshServicesMode};
use kodiak_terminal::{Exit, printable};

use super::Output;
use super::answers::{Lists, Outcome, ServiceStanding};
use super::gather::{Gathered, Seen, gather};
use super::status::spread;
use super::steps::{ShownCall, ShownMoving, ShownPlan, ShownStep, StepContext};
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak migrate services plan
  kodiak migrate services plan -m demo --watch 1h      require an hour without traffic to legacy clusters
  kodiak migrate services plan --examined              routes and ambiguous policies have been reviewed
  kodiak migrate services plan -o json | jq -r '.next.commands[]'

Nothing is changed. Each step comes with its commands and its rollback.")]
pub(crate) struct Args {
    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Read the statistics of proxies twice, this long apart, and count only traffic in between
    #[arg(long, value_name = "DURATION", value_parser = kodiak_terminal::duration)]
    watch: Option<GoDuration>,

    /// Routes, ambiguous references and services without a MeshService have been reviewed
    #[arg(long)]
    examined: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
}

pub(super) async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let client = session.client()?;
    let mesh = session.mesh(args.mesh.as_deref())?;
    let gathered = gather(&client, session, &mesh, args.watch.and_then(GoDuration::to_std)).await?;
    let facts = facts(&gathered, args.watch.is_some(), args.examined);
    let Plan { next, also, back } = plan(&facts);
    let watched = args.watch.map(|watched| watched.to_string());
    let context = StepContext { mesh: &gathered.standing.mesh, watched: watched.as_deref() };
    let all = |steps: &[_]| steps.iter().map(|step| context.show(step)).collect();
    let plan = ShownPlan { next: context.show(&next), also: all(&also), back: all(&back) };
    session.terminal.data(&args.output.show(&plan, || text(context.mesh, facts.mode, &plan))?)?;
    Ok(Exit::Fine)
}

fn facts(gathered: &Gathered, watched: bool, examined: bool) -> Facts {
    let Gathered { standing, consumers } = gathered;
    let mode = standing.mode.known().unwrap_or(MeshServicesMode::Disabled);
    let missing = |generated: bool| {
        let missing = standing.services.iter().filter(|one| one.objects.is_empty() && one.generated == generated);
        missing.map(|one| one.service.clone()).collect::<Vec<_>>()
    };
    let policies = |outcome: Outcome| standing.policies.iter().filter(move |policy| policy.has(outcome));
    let named = |outcome| policies(outcome).map(|policy| format!("{} {}", policy.kind, policy.name)).collect();
    let unlisted = consumers.iter().map(|seen| &seen.consumer).filter(|consumer| {
        mode == MeshServicesMode::ReachableBackends
            && matches!(consumer.lists, Lists::Nothing | Lists::Services)
            && !consumer.old.is_empty()
    });
    let unknown = consumers.iter().filter(|seen| seen.traffic.is_none() && !seen.consumer.old.is_empty());
    Facts {
        mode,
        consumers: consumers.iter().filter(|seen| seen.consumer.lists != Lists::Services).count(),
        clusters: standing.services.iter().map(clusters).sum(),
        not_there: missing(true),
        never_there: missing(false),
        convertible: policies(Outcome::Converted).count(),
        converted: policies(Outcome::ConvertedBefore).count(),
        unclear: named(Outcome::Unclear),
        routes: named(Outcome::Examine),
        examined,
        unlisted: unlisted.map(|consumer| consumer.name.clone()).collect(),
        moving: consumers.iter().filter_map(|seen| moving(seen, &standing.services)).collect(),
        unknown: unknown.map(|seen| seen.consumer.name.clone()).collect(),
        cross_zone: spread(&standing.services).map(str::to_owned).collect(),
        watched,
    }
}

/// Those that a service brings, or would bring.
fn clusters(service: &ServiceStanding) -> usize {
    let there: usize = service.objects.iter().map(|object| object.ports.len()).sum();
    if there == 0 && service.generated { service.ports } else { there }
}

fn moving(seen: &Seen, services: &[ServiceStanding]) -> Option<Moving> {
    let old = &seen.traffic.as_ref()?.old;
    let hostnames = |service: &str| {
        let found = services.iter().find(|one| one.service == service).into_iter();
        found.flat_map(|one| one.objects.iter().flat_map(|object| object.hostnames.iter().cloned())).collect()
    };
    let calls = old.keys().map(|service| Call { service: service.clone(), hostnames: hostnames(service) });
    let moving = Moving { consumer: seen.consumer.name.clone(), calls: calls.collect() };
    Some(moving).filter(|moving| !moving.calls.is_empty())
}

fn text(mesh: &str, mode: MeshServicesMode, plan: &ShownPlan) -> String {
    let ShownPlan { next, also, back } = plan;
    let mut text = format!("Mesh {mesh} is at meshServices.mode: {}\n\nNext: {}", mode.text(), shown(next));
    for (title, steps) in [("Also", also), ("Back", back)] {
        for step in steps {
            let _ = write!(text, "\n{title}: {}", shown(step));
        }
    }
    printable(&text).into_owned()
}

fn shown(step: &ShownStep) -> String {
    let ShownStep { title, why, commands, moving, .. } = step;
    let mut text = format!("{title}\n  {why}\n");
    for ShownMoving { consumer, calls } in moving {
        for ShownCall { service, hostnames } in calls {
            let new = if hostnames.is_empty() { "no hostname yet".to_owned() } else { hostnames.join(" or ") };
            let _ = writeln!(text, "    {consumer}: {service}.mesh -> {new}");
        }
    }
    for command in commands {
        let _ = writeln!(text, "  $ {command}");
    }
    text
}
