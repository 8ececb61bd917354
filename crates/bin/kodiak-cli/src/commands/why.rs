//! `kodiak why`: whether a client can call a destination, step by step.

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use kodiak_client::{Client, ResourceId};
use kodiak_inspection::why::{self, CallVerdict, Step, StepName, StepState, WhyAnswer, WhyContext};
use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, yaml};
use kodiak_reachability::Mode;
use kodiak_terminal::Exit;
use kodiak_xds::names;

use crate::documents::FileArgs;
use crate::report::count;
use crate::session::Session;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  kodiak why web backend
  kodiak why web-1 backend.svc.mesh.local:8080
  kodiak why web kri_msvc_default_east__backend_http -o json
  kodiak why web backend -f mesh/ --reachability on      from files, without a control plane

The first line is the verdict. Each step below is ok, problem or unknown:

  name        how the destination was understood
  address     virtual address and hostnames
  outbound    whether the client has an outbound, and which list or rule decides
  cluster     names of the clusters in Envoy that requests get to, with the routes of the client
  endpoints   instances, ready or not
  tls         SANs that the client expects and the servers present, and trusted CAs
  permission  verdict of MeshTrafficPermissions at the inbounds that the client calls, with the policy
  proxies     connections of both proxies, with acknowledged (ACK) and rejected (NACK) responses

Exit codes: 0 the call can work, 4 it cannot; others as for all commands.")]
pub struct Args {
    /// Dataplane, or service (kuma.io/service)
    #[arg(value_name = "CLIENT", value_parser = NonEmptyStringValueParser::new())]
    client: String,

    /// Hostname, virtual address, kuma.io/service, or name or KRI of a MeshService, MeshExternalService or
    /// MeshMultiZoneService; with :PORT if it has several
    #[arg(value_name = "DESTINATION[:PORT]", value_parser = NonEmptyStringValueParser::new())]
    destination: String,

    #[command(flatten)]
    files: FileArgs,

    /// Mesh [default: that of the context, or default]
    #[arg(short, long)]
    mesh: Option<String>,

    /// Zone of the control plane, with -f
    #[arg(long, default_value = "default")]
    zone: String,

    /// Reachability mode of the control plane, with -f: off, shadow or on
    #[arg(long, value_name = "MODE", default_value = "off")]
    reachability: Mode,

    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Human-readable
    Text,
    Yaml,
    Json,
}

pub async fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let answer: WhyAnswer = if args.files.is_empty() {
        let mesh = session.mesh(args.mesh.as_deref())?;
        let query = [("client", args.client.as_str()), ("destination", args.destination.as_str())];
        let client = session.client()?;
        let mut answer: WhyAnswer = client.calls(&mesh, "_why", &query).await?;
        if answer.trimmed {
            count_requests(&client, &mesh, &mut answer).await;
        }
        answer
    } else {
        let mesh = args.mesh.as_deref().unwrap_or("default");
        let Some(world) = args.files.world(mesh, &args.zone, session.terminal)? else { return Ok(Exit::Refused) };
        let context = WhyContext { reachability: args.reachability, offline: true, ..WhyContext::default() };
        let answer = why::why(&world, mesh, context, &args.client, &args.destination, &Cancellation::never());
        answer.map_err(|error| anyhow::anyhow!("{error}"))?
    };
    match args.output {
        Output::Text => session.terminal.result(text(&answer).trim_end())?,
        Output::Yaml => session.terminal.data(yaml::to_string(&serde_json::to_value(&answer)?).trim_end())?,
        Output::Json => session.terminal.data(&serde_json::to_string_pretty(&answer)?)?,
    }
    Ok(match answer.verdict {
        CallVerdict::Works => Exit::Fine,
        CallVerdict::Fails => Exit::Negative,
    })
}

/// Adds how many requests the proxy has answered in place of trimmed destinations, if its Envoy can be asked.
async fn count_requests(client: &Client, mesh: &str, answer: &mut WhyAnswer) {
    let kind = kinds().by_name("Dataplane").expect("proxies have Dataplanes");
    let id = ResourceId { kind, mesh, name: &answer.client };
    let Ok(stats) = client.inspect_text(id, "stats").await else { return };
    let requests = requests_to_trimmed(&stats);
    if let Some(step) = answer.steps.iter_mut().find(|step| step.step == StepName::Outbound) {
        let requests = count(usize::try_from(requests).unwrap_or(usize::MAX), "request", "requests");
        step.details.push(format!("the proxy has refused {requests} to trimmed destinations since it started"));
    }
}

/// Counter of Envoy for calls that no outbound exists for.
fn requests_to_trimmed(stats: &str) -> u64 {
    let counter = format!("http.{}.downstream_rq_total: ", names::stat_name(names::TRIMMED));
    let counter = stats.lines().find_map(|line| line.strip_prefix(&counter));
    counter.and_then(|count| count.trim().parse().ok()).unwrap_or_default()
}

fn text(answer: &WhyAnswer) -> String {
    let mut lines = vec![answer.summary.clone(), String::new()];
    for Step { step, state, reason, details } in &answer.steps {
        let state = match state {
            StepState::Ok => "ok",
            StepState::Problem => "problem",
            StepState::Unknown => "unknown",
        };
        lines.push(format!("  {state:<8} {:<11} {}", step.word(), one_line(reason)));
        lines.extend(details.iter().map(|detail| format!("{:23}{}", "", one_line(detail))));
    }
    if !answer.other_clients.is_empty() {
        let others = count(answer.other_clients.len(), "more Dataplane", "more Dataplanes");
        lines.push(format!("\nExamined {}; {others} of this service", answer.client));
    }
    lines.join("\n")
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn counter_of_trimmed_calls_is_read() {
        let stats = "http.outbound_trimmed.downstream_cx_total: 9\nhttp.outbound_trimmed.downstream_rq_total: 7\n";
        assert_eq!((requests_to_trimmed(stats), requests_to_trimmed("")), (7, 0));
    }

    #[test]
    fn first_line_is_the_verdict() {
        let step = |step, state, reason: &str, details: &[&str]| Step {
            step,
            state,
            reason: reason.to_owned(),
            details: details.iter().map(|detail| (*detail).to_owned()).collect(),
        };
        let answer = WhyAnswer {
            mesh: "default".to_owned(),
            client: "web-1".to_owned(),
            other_clients: vec!["web-2".to_owned()],
            destination: "backend".to_owned(),
            verdict: CallVerdict::Fails,
            summary: "web-1 cannot call backend: denied by p".to_owned(),
            trimmed: false,
            steps: vec![
                step(StepName::Address, StepState::Ok, "virtual address 240.0.0.0:80", &["hostname backend.mesh"]),
                step(StepName::Permission, StepState::Problem, "denied\nby p", &[]),
                step(StepName::Proxies, StepState::Unknown, "no", &[]),
            ],
            endpoints: Vec::new(),
        };
        expect![[r#"
            web-1 cannot call backend: denied by p

              ok       address     virtual address 240.0.0.0:80
                                   hostname backend.mesh
              problem  permission  denied by p
              unknown  proxies     no

            Examined web-1; 1 more Dataplane of this service"#]]
        .assert_eq(&text(&answer));
    }
}
