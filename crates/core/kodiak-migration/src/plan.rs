//! Next safe step of the migration, with its reason and its rollback.

use kodiak_model::{Word as _, kinds::mesh::MeshServicesMode};
use serde::Serialize;

/// Facts about a mesh and its consumers.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub mesh: String,
    pub mode: MeshServicesMode,
    pub consumers: usize,
    /// Number of clusters that MeshServices add.
    pub clusters: usize,
    /// Services whose MeshService is not generated yet.
    pub not_there: Vec<String>,
    /// Services for which no MeshService can be generated, and none was written.
    pub never_there: Vec<String>,
    /// Policies with references that can be converted.
    pub convertible: usize,
    /// Converted policies that still have their legacy references.
    pub converted: usize,
    /// Policies with references that need a manual decision.
    pub unclear: Vec<String>,
    pub routes: Vec<String>,
    /// Somebody has dealt with what only people can: routes, what is not clear, and services without a MeshService.
    pub examined: bool,
    /// Consumers without MeshServices, because their Dataplane lists no `reachableBackends`.
    pub unlisted: Vec<String>,
    /// Consumers that call legacy clusters.
    pub moving: Vec<Moving>,
    /// Consumers whose Envoy was not queried or did not respond.
    pub unknown: Vec<String>,
    /// Services that are called in several zones, and for which there is no MeshMultiZoneService.
    pub cross_zone: Vec<String>,
    /// Time for which the counters were watched, such as `30s`; since the start of each proxy when missing.
    pub watched: Option<String>,
}

/// Consumer, and the services that it still calls by tag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Moving {
    pub consumer: String,
    pub calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    pub service: String,
    /// Replacements; empty when there are none yet.
    pub hostnames: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Plan {
    pub next: Step,
    /// Other steps that are possible now.
    pub also: Vec<Step>,
    pub back: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    pub action: Action,
    pub title: String,
    pub why: String,
    /// Command lines.
    pub commands: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub moving: Vec<Moving>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Action {
    SetMode,
    Wait,
    WriteServices,
    Convert,
    LookAtPolicies,
    LookAtRoutes,
    MakeMultiZoneServices,
    ListBackends,
    MoveConsumers,
    Watch,
    DropOldItems,
    Nothing,
}

/// First step whose preconditions hold. No step removes anything in use.
pub fn plan(facts: &Facts) -> Plan {
    let next = match facts.mode {
        MeshServicesMode::Disabled => everywhere(facts),
        MeshServicesMode::Everywhere | MeshServicesMode::ReachableBackends => beside(facts),
        MeshServicesMode::Exclusive => alone(facts),
    };
    Plan { also: also(facts, next.action), back: back(facts), next }
}

fn everywhere(facts: &Facts) -> Step {
    let Facts { consumers, clusters, .. } = facts;
    let why = format!(
        "MeshServices come beside what is there: {} for each of {}; names, addresses and clusters of today stay as they are",
        count(*clusters, "new cluster", "new clusters"),
        count(*consumers, "proxy", "proxies"),
    );
    set_mode(facts, MeshServicesMode::Everywhere, why)
}

/// Old and new are there: first what policies say, then who calls what.
fn beside(facts: &Facts) -> Step {
    let Facts { not_there, never_there, convertible, unclear, routes, examined, unlisted, moving, unknown, .. } = facts;
    let mesh = &facts.mesh;
    if !not_there.is_empty() {
        let why = format!("there is no MeshService yet for {}", not_there.join(", "));
        return step(Action::Wait, "wait until all MeshServices exist", why, [status(mesh)]);
    }
    if *convertible > 0 {
        let why = format!(
            "{} by old names alone; new references are added beside the old ones, and it is shown that no proxy changes",
            count(*convertible, "policy speaks", "policies speak"),
        );
        return step(
            Action::Convert,
            "convert policies",
            why,
            [format!("kodiak migrate services convert --mesh {mesh} --apply")],
        );
    }
    if !unclear.is_empty() && !examined {
        let why = format!("legacy names are ambiguous in {}", unclear.join(", "));
        let command = format!("kodiak migrate services convert --mesh {mesh}");
        return step(Action::LookAtPolicies, "review policies with ambiguous references", why, [command]);
    }
    if !never_there.is_empty() && !examined {
        let why = format!("no MeshService is generated for {}: the name is not valid for one", never_there.join(", "));
        let command = "kodiak apply -f meshservice.yaml".to_owned();
        return step(Action::WriteServices, "create MeshServices for services without one", why, [command]);
    }
    if !routes.is_empty() && !examined {
        let why = format!(
            "routes are not carried over, and these hold for old names alone: {}; without a route for the MeshService, calls of \
             it are not split, changed or mirrored",
            routes.join(", "),
        );
        let command = format!("kodiak migrate services convert --mesh {mesh}");
        return step(Action::LookAtRoutes, "write routes for MeshServices", why, [command]);
    }
    if facts.mode == MeshServicesMode::ReachableBackends && !unlisted.is_empty() {
        let why = format!(
            "{} no MeshService, because reachableBackends is not written in the Dataplane; next is {:?}",
            count(unlisted.len(), "proxy reaches", "proxies reach"),
            unlisted[0],
        );
        let listed = "networking.transparentProxying.reachableBackends.refs: [{kind: MeshService, name: ...}]";
        let commands = edit(&format!("dataplane {} -m {mesh}", unlisted[0]), "dataplane.yaml", listed);
        return step(Action::ListBackends, "list backends for one more consumer", why, commands);
    }
    if !moving.is_empty() {
        let (calls, when) = match &facts.watched {
            Some(watched) => {
                (count(moving.len(), "consumer called", "consumers called"), format!("in the last {watched}"))
            }
            None => (
                count(moving.len(), "consumer has called", "consumers have called"),
                "since its proxy started; watch for a while to see who still does".to_owned(),
            ),
        };
        let commands = [status(mesh), watch(mesh)];
        let title = "move consumers to the new hostnames";
        let step = step(Action::MoveConsumers, title, format!("{calls} legacy clusters {when}"), commands);
        return Step { moving: moving.clone(), ..step };
    }
    if !unknown.is_empty() {
        let why = format!(
            "the destinations of {} are unknown, and nothing is removed that may be in use",
            unknown.join(", ")
        );
        return step(Action::Watch, "run the plan again when all proxies are connected", why, [watch(mesh)]);
    }
    let Some(watched) = &facts.watched else {
        let why = "no proxy has called a legacy cluster since it started; watch for at least the interval of the rarest calls";
        return step(Action::Watch, "watch for a while", why.to_owned(), [watch(mesh)]);
    };
    set_mode(facts, MeshServicesMode::Exclusive, format!("no proxy called a legacy cluster in the last {watched}"))
}

fn alone(facts: &Facts) -> Step {
    let Facts { mesh, converted, convertible, .. } = facts;
    if *converted > 0 {
        let why = format!("{} legacy references without effect", count(*converted, "policy has", "policies have"));
        let command = format!("kodiak migrate services convert --mesh {mesh} --replace --apply");
        return step(Action::DropOldItems, "drop old references", why, [command]);
    }
    if *convertible > 0 {
        let why = format!("{} by old names alone", count(*convertible, "policy speaks", "policies speak"));
        let command = format!("kodiak migrate services convert --mesh {mesh} --replace --apply");
        return step(Action::Convert, "convert policies", why, [command]);
    }
    step(Action::Nothing, "the migration is complete", "only MeshServices are called".to_owned(), [])
}

/// Steps that need not wait, and do not hold up others.
fn also(facts: &Facts, next: Action) -> Vec<Step> {
    let Facts { mesh, mode, cross_zone, unlisted, .. } = facts;
    let mut steps = Vec::new();
    if !cross_zone.is_empty() && *mode != MeshServicesMode::Exclusive {
        let why = format!(
            "{} in several zones now; a MeshService is called in its own zone alone: {}",
            count(cross_zone.len(), "service is called", "services are called"),
            cross_zone.join(", "),
        );
        let title = "create a MeshMultiZoneService for services that are called in all zones";
        let command = "kodiak apply -f meshmultizoneservice.yaml".to_owned();
        steps.push(step(Action::MakeMultiZoneServices, title, why, [command]));
    }
    if *mode == MeshServicesMode::Disabled && next == Action::SetMode {
        let why = "only proxies whose Dataplane lists reachableBackends see MeshServices".to_owned();
        steps.push(set_mode(facts, MeshServicesMode::ReachableBackends, why));
    }
    if *mode == MeshServicesMode::ReachableBackends && !unlisted.is_empty() && next != Action::ListBackends {
        let why = format!("{} the list still", count(unlisted.len(), "proxy lacks", "proxies lack"));
        steps.push(step(Action::ListBackends, "list backends for more consumers", why, [status(mesh)]));
    }
    steps
}

fn back(facts: &Facts) -> Vec<Step> {
    let to = |mode, why: &str| vec![set_mode(facts, mode, why.to_owned())];
    match facts.mode {
        MeshServicesMode::Disabled => Vec::new(),
        MeshServicesMode::Everywhere | MeshServicesMode::ReachableBackends => to(
            MeshServicesMode::Disabled,
            "generated MeshServices go, with their hostnames and clusters: move consumers that call them back first",
        ),
        MeshServicesMode::Exclusive => to(
            MeshServicesMode::Everywhere,
            "the names, addresses and clusters of kuma.io/service come back beside the new ones",
        ),
    }
}

fn set_mode(facts: &Facts, mode: MeshServicesMode, why: String) -> Step {
    let mode = mode.text();
    let commands = edit(&format!("mesh {}", facts.mesh), "mesh.yaml", &format!("meshServices: {{mode: {mode}}}"));
    step(Action::SetMode, &format!("set meshServices.mode: {mode}"), why, commands)
}

/// Read it, change it, see what would follow, write it.
fn edit(what: &str, file: &str, change: &str) -> [String; 3] {
    [
        format!("kodiak get {what} -o yaml > {file}    # then write {change}"),
        format!("kodiak diff -f {file}"),
        format!("kodiak apply -f {file}"),
    ]
}

fn step(action: Action, title: &str, why: String, commands: impl IntoIterator<Item = String>) -> Step {
    Step { action, title: title.to_owned(), why, commands: commands.into_iter().collect(), moving: Vec::new() }
}

fn status(mesh: &str) -> String {
    format!("kodiak migrate services status --mesh {mesh}")
}

fn watch(mesh: &str) -> String {
    format!("kodiak migrate services plan --mesh {mesh} --watch 1h")
}

fn count(number: usize, one: &str, many: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {many}") }
}
