//! `kodiak migrate services plan`.

use std::fmt::Write as _;

use kodiak_migration::plan::{Facts, Plan, TrafficFacts, plan};
use kodiak_model::{GoDuration, Word as _, kinds::mesh::MeshServicesMode};
use kodiak_terminal::{Exit, printable};

use super::gather::{Gathered, gather};
use super::steps::{ShownBreak, ShownCall, ShownMoving, ShownPlan, ShownStep, StepContext};
use super::traffic::Traffic;
use crate::report::Output;
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
    let traffic = |traffic: &Traffic| TrafficFacts {
        services: traffic.old.keys().cloned().collect(),
        objects: traffic.new.is_used(),
    };
    let consumers = gathered.consumers.iter();
    let consumers: Vec<_> = consumers.map(|seen| (seen.consumer.facts(), seen.traffic.as_ref().map(traffic))).collect();
    Facts::of(&gathered.standing.facts(), &consumers, watched, examined)
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
    let ShownStep { title, why, commands, moving, breaks, .. } = step;
    let mut text = format!("{title}\n  {why}\n");
    for ShownBreak { consumer, destination, advice, .. } in breaks {
        let _ = writeln!(text, "    {consumer}: {destination}: {advice}");
    }
    for ShownMoving { consumer, calls } in moving {
        for ShownCall { service, hostnames } in calls {
            let new = if hostnames.is_empty() {
                "no hostname that it reaches: reference a MeshService in reachableBackends or in a backendRef"
                    .to_owned()
            } else {
                hostnames.join(" or ")
            };
            let _ = writeln!(text, "    {consumer}: {service}.mesh -> {new}");
        }
    }
    for command in commands {
        let _ = writeln!(text, "  $ {command}");
    }
    text
}
