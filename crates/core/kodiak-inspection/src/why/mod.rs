//! Whether one client can call one destination, and why: from the name to the answer of the server, one step after the
//! other.
//!
//! ```text
//!  name --> address --> outbound --> cluster --> endpoints --> TLS --> permission --> proxies
//! ```
//!
//! Every step has a state and a reason. The first step with a problem is the verdict. Permissions come from
//! `kodiak-reachability` and outbounds from `kodiak-services`, as in the engine.

mod connections;
mod outbound;
mod resolve;
mod serving;
#[cfg(test)]
mod tests;
mod tls;

use std::{fmt, sync::Arc};

use kodiak_identity::TlsPolicies;
use kodiak_model::{Cancellation, Cancelled, Kri, kinds::mesh::MeshServicesMode};
use kodiak_policies::mesh_traffic_permission;
use kodiak_reachability::{Answer, MeshGraph, Mode, No, Purpose, Target, Yes, admission::Source, rollout};
use kodiak_rollout::Rollout;
use kodiak_rules::{PolicyIndex, Proxy, Shadow};
use kodiak_world::{Destination, World, destination::DestinationPort};
use kodiak_xds::names;
use serde::{Deserialize, Serialize};

use self::tls::{Connections, Outcome};
use crate::calls::{Backend, Routes, Trimming, UnknownName};

pub use kodiak_xds::names::Naming;

/// Facts that are not in the resources of a mesh.
#[derive(Debug, Clone, Copy, Default)]
pub struct WhyContext {
    /// Setting of the control plane.
    pub reachability: Mode,
    pub naming: Naming,
    /// Resources are from files: there are no addresses, connections or acknowledgements.
    pub offline: bool,
}

/// The verdict, and the steps that lead to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyAnswer {
    pub mesh: String,
    /// Dataplane of the client that was examined.
    pub client: String,
    /// Other Dataplanes of the same service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_clients: Vec<String>,
    /// Value of `kuma.io/service`, or KRI with the port.
    pub destination: String,
    pub verdict: CallVerdict,
    /// The verdict in one sentence.
    pub summary: String,
    /// Whether reachability removed the outbound.
    #[serde(default)]
    pub trimmed: bool,
    pub steps: Vec<Step>,
    pub endpoints: Vec<WhyEndpoint>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CallVerdict {
    /// No step has a problem.
    Works,
    Fails,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub step: StepName,
    pub state: StepState,
    pub reason: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub details: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepName {
    Name,
    Address,
    Outbound,
    Cluster,
    Endpoints,
    Tls,
    Permission,
    Proxies,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    Ok,
    Problem,
    Unknown,
}

/// Instance behind the destination, endpoint or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WhyEndpoint {
    /// Empty for endpoints outside of the mesh.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub dataplane: String,
    pub address: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub zone: String,
    pub ready: bool,
    /// `Ready`, or the reason why it is not an endpoint.
    pub state: String,
    /// `None` when it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected: Option<bool>,
}

/// The question cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyError {
    UnknownClient(UnknownName),
    UnknownDestination(UnknownName),
    /// The destination has other ports.
    UnknownPort {
        destination: String,
        port: u32,
        ports: Vec<u32>,
    },
    Cancelled(Cancelled),
}

impl From<Cancelled> for WhyError {
    fn from(cancelled: Cancelled) -> Self {
        Self::Cancelled(cancelled)
    }
}

impl fmt::Display for WhyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownClient(unknown) => write!(f, "there is no Dataplane and no service {unknown}"),
            Self::UnknownDestination(unknown) => write!(f, "there is no destination {unknown}"),
            Self::UnknownPort { destination, port, ports } => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                write!(f, "{destination} has no port {port}; it has {}", ports.join(", "))
            }
            Self::Cancelled(cancelled) => cancelled.fmt(f),
        }
    }
}

impl Step {
    fn new(step: StepName, state: StepState, reason: impl Into<String>) -> Self {
        Self { step, state, reason: reason.into(), details: Vec::new() }
    }

    fn ok(step: StepName, reason: impl Into<String>) -> Self {
        Self::new(step, StepState::Ok, reason)
    }

    fn problem(step: StepName, reason: impl Into<String>) -> Self {
        Self::new(step, StepState::Problem, reason)
    }

    fn unknown(step: StepName, reason: impl Into<String>) -> Self {
        Self::new(step, StepState::Unknown, reason)
    }

    fn with(mut self, details: impl IntoIterator<Item = String>) -> Self {
        self.details.extend(details);
        self
    }
}

/// A destination with the port that is called.
#[derive(Debug, Clone)]
enum Called {
    Service(Arc<str>),
    Port(Arc<Destination>, DestinationPort),
}

impl Called {
    fn target(&self) -> Target {
        match self {
            Self::Service(service) => Target::Service(service.clone()),
            Self::Port(destination, _) => Target::Object(Arc::new(destination.kri.clone())),
        }
    }

    /// KRI with the section of the port.
    fn name(&self) -> String {
        match self {
            Self::Service(service) => service.to_string(),
            Self::Port(destination, port) => {
                Kri { section: port.section.clone(), ..destination.kri.clone() }.to_string()
            }
        }
    }

    /// As a person calls it.
    fn short(&self) -> String {
        match self {
            Self::Service(service) => service.to_string(),
            Self::Port(destination, port) => format!("{}:{}", destination.kri.name, port.port),
        }
    }
}

/// One question with all that its steps read.
struct Question<'a> {
    world: &'a World,
    mesh: &'a str,
    mode: MeshServicesMode,
    rollout: Rollout,
    context: WhyContext,
    client: Arc<Proxy>,
    called: Called,
    /// Destinations that requests get to.
    backends: Vec<Backend>,
    /// Whether routes decide about them.
    routed: bool,
    index: PolicyIndex,
    may: Answer,
    trimming: Trimming<'a>,
}

/// `client` is a Dataplane or a service; `destination` a hostname, a virtual address, a value of `kuma.io/service`, or the
/// name or KRI of a resource, with `:port` if it has several.
pub fn why(
    world: &World,
    mesh: &str,
    context: WhyContext,
    client: &str,
    destination: &str,
    cancellation: &Cancellation,
) -> Result<WhyAnswer, WhyError> {
    let clients = resolve::clients(world, mesh, client).map_err(WhyError::UnknownClient)?;
    let (client, others) = clients.split_first().expect("an unknown client is an error");
    let resolved = resolve::destination(world, mesh, client, destination)?;
    let graph = MeshGraph::of(world, mesh, Purpose::Calls, Shadow::Ignored, cancellation)?;
    let routes = Routes::of(world, mesh);
    let routed = routes.client(client).backends(&resolved.called.backend());
    let question = Question {
        world,
        mesh,
        mode: world.mesh_services_mode(mesh),
        rollout: rollout(world, mesh),
        context,
        client: client.clone(),
        routed: routed.is_some(),
        backends: routed.unwrap_or_else(|| vec![resolved.called.backend()]),
        index: world.policy_index(TlsPolicies::kinds().chain([&mesh_traffic_permission::KIND]), mesh),
        may: graph.may(&client.name, &resolved.called.target()),
        trimming: Trimming::of(world, mesh, context.reachability, cancellation)?,
        called: resolved.called.clone(),
    };
    let ways = serving::ways(&question);
    let connections = Connections::of(&question, &ways);
    let steps = vec![
        resolved.step(),
        outbound::address(&question),
        outbound::outbound(&question),
        question.cluster(),
        serving::endpoints(&question, &ways),
        tls::tls(&question, &ways, &connections),
        question.permission(&connections),
        connections::proxies(&question, &ways),
    ];
    let (verdict, summary) = question.verdict(&steps);
    Ok(WhyAnswer {
        mesh: mesh.to_owned(),
        client: client.name.to_string(),
        other_clients: others.iter().map(|proxy| proxy.name.to_string()).collect(),
        destination: question.called.name(),
        verdict,
        summary,
        trimmed: outbound::is_trimmed(&question),
        steps,
        endpoints: ways.into_iter().flat_map(|way| way.instances).map(|instance| instance.endpoint).collect(),
    })
}

impl Question<'_> {
    fn verdict(&self, steps: &[Step]) -> (CallVerdict, String) {
        let (client, called) = (&self.client.name, self.called.short());
        if let Some(step) = steps.iter().find(|step| step.state == StepState::Problem) {
            return (CallVerdict::Fails, format!("{client} cannot call {called}: {}", step.reason));
        }
        let permission = steps.iter().find(|step| step.step == StepName::Permission);
        let reason = permission.map(|step| step.reason.as_str()).unwrap_or_default();
        let unknown: Vec<&str> =
            steps.iter().filter(|step| step.state == StepState::Unknown).map(|step| step.step.word()).collect();
        let limits = if unknown.is_empty() { String::new() } else { format!(" (not known: {})", unknown.join(", ")) };
        (CallVerdict::Works, format!("{client} can call {called}: {reason}{limits}"))
    }

    fn cluster(&self) -> Step {
        let step = StepName::Cluster;
        let clusters: Vec<String> = self.backends.iter().map(|backend| self.cluster_name(backend)).collect();
        match clusters.as_slice() {
            [] => Step::problem(step, "routes of the client send no request to a destination that exists"),
            [one] => Step::ok(step, format!("cluster {one} in Envoy's statistics and logs")),
            several => Step::ok(step, format!("clusters {} in Envoy's statistics and logs", several.join(", "))),
        }
        .with(self.routed.then(|| "a MeshHTTPRoute or MeshTCPRoute of the client decides where requests go".to_owned()))
    }

    fn cluster_name(&self, backend: &Backend) -> String {
        match backend {
            Backend::Service(tags) => names::service_cluster(tags),
            Backend::Port(destination, port) => {
                let kri = Kri { section: port.section.clone(), ..destination.kri.clone() };
                names::port_cluster(self.context.naming, &kri, port.port)
            }
        }
    }

    /// TLS and permissions of inbounds.
    fn source(&self) -> Source<'_> {
        Source { index: &self.index, shadow: Shadow::Ignored, rollout: &self.rollout, purpose: Purpose::Calls }
    }

    /// The answer of the instances that the client connects to: the first that admits it, or else the last. Without one, what
    /// is known of the whole destination.
    fn verdict_of(&self, connections: &Connections) -> Answer {
        let answers = connections.outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Answered(answer) => Some(answer),
            Outcome::NoConnection(_) => None,
        });
        let answers: Vec<&Answer> = answers.collect();
        let best = answers.iter().find(|answer| answer.is_yes()).or(answers.last());
        best.map_or_else(|| self.may.clone(), |answer| (*answer).clone())
    }

    fn permission(&self, connections: &Connections) -> Step {
        let (step, called) = (StepName::Permission, self.called.short());
        match &self.verdict_of(connections) {
            Answer::Yes(Yes::Allowed { policy }) if policy.is_empty() => Step::ok(step, "allowed"),
            Answer::Yes(Yes::Allowed { policy }) => Step::ok(step, format!("allowed by {policy}")),
            Answer::Yes(Yes::Open) => Step::ok(step, "no permission acts on a call in plain text or out of the mesh"),
            Answer::Yes(Yes::Unknown) => Step::unknown(step, format!("permissions of {called} are not known")),
            Answer::No(No::Denied { policy }) => Step::problem(step, format!("denied by {policy}")),
            Answer::No(No::RefusesPlaintext) => {
                Step::problem(step, format!("{called} refuses plain text, and {} has no certificate", self.client.name))
            }
            Answer::No(No::RefusesMtls) => Step::problem(
                step,
                format!("the servers of {called} have no certificate, and {} calls with mTLS", self.client.name),
            ),
            Answer::No(No::NotAllowed) => {
                let reason = format!("no MeshTrafficPermission of {called} allows {}", self.client.name);
                Step::problem(step, reason)
                    .with(self.certificate().iter().map(|uri| format!("the client presents {uri}")))
            }
        }
    }
}

impl StepName {
    /// As in the JSON answer.
    pub fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Address => "address",
            Self::Outbound => "outbound",
            Self::Cluster => "cluster",
            Self::Endpoints => "endpoints",
            Self::Tls => "tls",
            Self::Permission => "permission",
            Self::Proxies => "proxies",
        }
    }
}
