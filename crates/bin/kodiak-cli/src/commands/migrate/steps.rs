//! Steps of the plan for people: titles, reasons, and the commands that carry them out.

use kodiak_migration::plan::{Because, Broken, Moving, Step};
use kodiak_migration::{BreakReason, OldItems};
use kodiak_model::Word as _;
use kodiak_model::kinds::mesh::MeshServicesMode;
use serde::Serialize;

use crate::report::count;

/// The plan as it is printed.
#[derive(Serialize)]
pub(super) struct ShownPlan {
    pub(super) next: ShownStep,
    pub(super) also: Vec<ShownStep>,
    pub(super) back: Vec<ShownStep>,
}

#[derive(Serialize)]
pub(super) struct ShownStep {
    action: &'static str,
    pub(super) title: String,
    pub(super) why: String,
    pub(super) commands: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) moving: Vec<ShownMoving>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) breaks: Vec<ShownBreak>,
}

/// Destination that a consumer loses, and what to do.
#[derive(Serialize)]
pub(super) struct ShownBreak {
    pub(super) consumer: String,
    pub(super) destination: String,
    pub(super) advice: &'static str,
}

#[derive(Serialize)]
pub(super) struct ShownMoving {
    pub(super) consumer: String,
    pub(super) calls: Vec<ShownCall>,
}

#[derive(Serialize)]
pub(super) struct ShownCall {
    pub(super) service: String,
    pub(super) hostnames: Vec<String>,
}

/// Arguments of the command that made the plan.
#[derive(Clone, Copy)]
pub(super) struct StepContext<'a> {
    pub(super) mesh: &'a str,
    /// Time of `--watch`, such as `30s`.
    pub(super) watched: Option<&'a str>,
}

impl StepContext<'_> {
    pub(super) fn show(self, step: &Step) -> ShownStep {
        match step {
            Step::SetMode(mode, because) => self.set_mode(*mode, *because),
            Step::Wait(services) => {
                let why = format!("there is no MeshService yet for {}", services.join(", "));
                shown("Wait", "wait until all MeshServices exist", why, [self.status()])
            }
            Step::WriteServices(services) => {
                let services = services.join(", ");
                let why = format!("no MeshService is generated for {services}: the name is not valid for one");
                let command = "kodiak apply -f meshservice.yaml".to_owned();
                shown("WriteServices", "create MeshServices for services without one", why, [command])
            }
            Step::Convert(policies, OldItems::Kept) => {
                let why = format!(
                    "{} by old names alone; new references are added beside the old ones, and it is shown that no proxy \
                     changes",
                    count(*policies, "policy speaks", "policies speak"),
                );
                shown("Convert", "convert policies", why, [self.convert(" --apply")])
            }
            Step::Convert(policies, OldItems::Dropped) => {
                let why = format!("{} by old names alone", count(*policies, "policy speaks", "policies speak"));
                shown("Convert", "convert policies", why, [self.convert(" --replace --apply")])
            }
            Step::DropOldItems(policies) => {
                let why =
                    format!("{} legacy references without effect", count(*policies, "policy has", "policies have"));
                shown("DropOldItems", "drop old references", why, [self.convert(" --replace --apply")])
            }
            Step::LookAtPolicies(policies) => {
                let why = format!("legacy names are ambiguous in {}", policies.join(", "));
                shown("LookAtPolicies", "review policies with ambiguous references", why, [self.convert("")])
            }
            Step::LookAtRoutes(routes) => {
                let why = format!(
                    "routes are not carried over, and these hold for old names alone: {}; without a route for the \
                     MeshService, calls of it are not split, changed or mirrored",
                    routes.join(", "),
                );
                shown("LookAtRoutes", "write routes for MeshServices", why, [self.convert("")])
            }
            Step::MakeMultiZoneServices(services) => {
                let why = format!(
                    "{} in several zones now; a MeshService is called in its own zone alone: {}",
                    count(services.len(), "service is called", "services are called"),
                    services.join(", "),
                );
                let title = "create a MeshMultiZoneService for services that are called in all zones";
                let command = "kodiak apply -f meshmultizoneservice.yaml".to_owned();
                shown("MakeMultiZoneServices", title, why, [command])
            }
            Step::ListBackends(proxies) => self.list_backends(proxies),
            Step::ListMoreBackends(proxies) => {
                let why = format!("{} the list still", count(proxies.len(), "proxy lacks", "proxies lack"));
                shown("ListBackends", "list backends for more consumers", why, [self.status()])
            }
            Step::MoveConsumers(moving) => self.move_consumers(moving),
            Step::FixConsumers(broken) => self.fix_consumers(broken),
            Step::MoveBack(consumers) => {
                let consumers = consumers.join(", ");
                let why = format!(
                    "generated MeshServices go in mode Disabled, and these consumers call objects: {consumers}"
                );
                shown(
                    "MoveConsumers",
                    "move consumers back to the legacy hostnames",
                    why,
                    [self.status(), self.watch()],
                )
            }
            Step::Connect(consumers) => {
                let consumers = consumers.join(", ");
                let why =
                    format!("the destinations of {consumers} are unknown, and nothing is removed that may be in use");
                shown("Watch", "run the plan again when all proxies are connected", why, [self.watch()])
            }
            Step::Watch => {
                let why = "no proxy has called a legacy cluster since it started; watch for at least the interval of the \
                           rarest calls";
                shown("Watch", "watch for a while", why.to_owned(), [self.watch()])
            }
            Step::Nothing => {
                shown("Nothing", "the migration is complete", "only MeshServices are called".to_owned(), [])
            }
        }
    }

    fn set_mode(self, mode: MeshServicesMode, because: Because) -> ShownStep {
        let why = match because {
            Because::OnlyAdds { clusters, consumers } => format!(
                "MeshServices come beside what is there: {} for each of {}; names, addresses and clusters of today stay as \
                 they are",
                count(clusters, "new cluster", "new clusters"),
                count(consumers, "proxy", "proxies"),
            ),
            Because::OneByOne => "only proxies whose Dataplane lists reachableBackends see MeshServices".to_owned(),
            Because::Unused => {
                format!("no proxy called a legacy cluster in the last {}", self.watched.unwrap_or_default())
            }
            Because::Rollback if mode == MeshServicesMode::Disabled => {
                "generated MeshServices go, with their hostnames \
                 and clusters: move consumers that call them back first"
                    .to_owned()
            }
            Because::Rollback => {
                "the names, addresses and clusters of kuma.io/service come back beside the new ones".to_owned()
            }
        };
        let mode = mode.text();
        let commands = edit(&format!("mesh {}", self.mesh), "mesh.yaml", &format!("meshServices: {{mode: {mode}}}"));
        shown("SetMode", &format!("set meshServices.mode: {mode}"), why, commands)
    }

    fn list_backends(self, proxies: &[String]) -> ShownStep {
        let first = proxies.first().map_or("", String::as_str);
        let why = format!(
            "{} no MeshService, because reachableBackends is not written in the Dataplane; next is {first:?}",
            count(proxies.len(), "proxy reaches", "proxies reach"),
        );
        let listed = "networking.transparentProxying.reachableBackends.refs: [{kind: MeshService, labels: {}}]";
        let commands = edit(&format!("dataplane {first} -m {}", self.mesh), "dataplane.yaml", listed);
        shown("ListBackends", "list backends for one more consumer", why, commands)
    }

    fn move_consumers(self, moving: &[Moving]) -> ShownStep {
        let why = if let Some(watched) = self.watched {
            let consumers = count(moving.len(), "consumer called", "consumers called");
            format!("{consumers} legacy clusters in the last {watched}")
        } else {
            let consumers = count(moving.len(), "consumer has called", "consumers have called");
            format!("{consumers} legacy clusters since its proxy started; watch for a while to see who still does")
        };
        let step = shown("MoveConsumers", "move consumers to the new hostnames", why, [self.status(), self.watch()]);
        ShownStep { moving: moving.iter().map(ShownMoving::of).collect(), ..step }
    }

    fn fix_consumers(self, broken: &[Broken]) -> ShownStep {
        let why = format!(
            "mode Exclusive has no outbounds to kuma.io/service, and {} lost that a Dataplane names",
            count(broken.len(), "destination is", "destinations are"),
        );
        let first = broken.first().map_or("", |one| one.consumer.as_str());
        let dataplane = format!("dataplane {first} -m {}", self.mesh);
        let commands = edit(&dataplane, "dataplane.yaml", "references to MeshServices");
        let step = shown("FixConsumers", "reference MeshServices in Dataplanes", why, commands);
        ShownStep { breaks: broken.iter().map(ShownBreak::of).collect(), ..step }
    }

    fn status(self) -> String {
        format!("kodiak migrate services status --mesh {}", self.mesh)
    }

    fn watch(self) -> String {
        format!("kodiak migrate services plan --mesh {} --watch 1h", self.mesh)
    }

    fn convert(self, flags: &str) -> String {
        format!("kodiak migrate services convert --mesh {}{flags}", self.mesh)
    }
}

impl ShownBreak {
    fn of(Broken { consumer, lost }: &Broken) -> Self {
        let advice = match lost.reason {
            BreakReason::OutboundWithTags => "write a backendRef instead of tags in networking.outbound",
            BreakReason::NoObject => "create a MeshService for it, or delete it from reachableServices",
            BreakReason::NotReachable => "list the object in reachableBackends",
            BreakReason::NotListed => "write reachableBackends",
        };
        Self { consumer: consumer.clone(), destination: lost.destination.clone(), advice }
    }
}

impl ShownMoving {
    fn of(moving: &Moving) -> Self {
        let call = |call: &kodiak_migration::plan::Call| ShownCall {
            service: call.service.clone(),
            hostnames: call.hostnames.clone(),
        };
        Self { consumer: moving.consumer.clone(), calls: moving.calls.iter().map(call).collect() }
    }
}

fn shown(action: &'static str, title: &str, why: String, commands: impl IntoIterator<Item = String>) -> ShownStep {
    ShownStep {
        action,
        title: title.to_owned(),
        why,
        commands: commands.into_iter().collect(),
        moving: Vec::new(),
        breaks: Vec::new(),
    }
}

/// Reads a resource, edits it, previews the effect, and applies it.
fn edit(what: &str, file: &str, change: &str) -> [String; 3] {
    [
        format!("kodiak get {what} -o yaml > {file}    # then write {change}"),
        format!("kodiak diff -f {file}"),
        format!("kodiak apply -f {file}"),
    ]
}

#[cfg(test)]
mod tests {
    use kodiak_migration::Break;
    use kodiak_migration::plan::Call;

    use super::*;

    const CONTEXT: StepContext<'_> = StepContext { mesh: "demo", watched: None };

    #[test]
    fn mode_is_set_by_editing_the_mesh() {
        let adds = Because::OnlyAdds { clusters: 2, consumers: 3 };
        let step = CONTEXT.show(&Step::SetMode(MeshServicesMode::Everywhere, adds));
        assert_eq!(step.title, "set meshServices.mode: Everywhere");
        assert_eq!(
            step.why,
            "MeshServices come beside what is there: 2 new clusters for each of 3 proxies; names, addresses and clusters of \
             today stay as they are"
        );
        assert_eq!(
            step.commands,
            [
                "kodiak get mesh demo -o yaml > mesh.yaml    # then write meshServices: {mode: Everywhere}",
                "kodiak diff -f mesh.yaml",
                "kodiak apply -f mesh.yaml",
            ]
        );
        let watched = StepContext { watched: Some("1h"), ..CONTEXT };
        let step = watched.show(&Step::SetMode(MeshServicesMode::Exclusive, Because::Unused));
        assert_eq!(step.why, "no proxy called a legacy cluster in the last 1h");
    }

    #[test]
    fn moving_consumers_get_the_replacement() {
        let call = Call { service: "web".to_owned(), hostnames: vec!["web.svc.mesh.local".to_owned()] };
        let step = Step::MoveConsumers(vec![Moving { consumer: "client".to_owned(), calls: vec![call] }]);
        let shown = CONTEXT.show(&step);
        assert_eq!(shown.moving[0].calls[0].hostnames, ["web.svc.mesh.local"]);
        assert_eq!(
            shown.why,
            "1 consumer has called legacy clusters since its proxy started; watch for a while to see who still does"
        );
        let watched = StepContext { watched: Some("5m"), ..CONTEXT };
        assert_eq!(watched.show(&step).why, "1 consumer called legacy clusters in the last 5m");
    }

    #[test]
    fn broken_consumers_are_named_with_destination_and_advice() {
        let lost = |reason| Break { mode: MeshServicesMode::Exclusive, destination: "api".to_owned(), reason };
        let broken = |reason| Broken { consumer: "client".to_owned(), lost: lost(reason) };
        let step = CONTEXT.show(&Step::FixConsumers(vec![broken(BreakReason::OutboundWithTags)]));
        assert_eq!((step.breaks[0].consumer.as_str(), step.breaks[0].destination.as_str()), ("client", "api"));
        assert!(step.breaks[0].advice.contains("backendRef"), "{}", step.breaks[0].advice);
        assert!(step.why.contains("1 destination is lost"), "{}", step.why);
        assert!(step.commands[0].starts_with("kodiak get dataplane client -m demo"), "{}", step.commands[0]);
    }

    #[test]
    fn commands_replace_legacy_references_only_when_they_have_no_effect() {
        let command = |step| CONTEXT.show(&step).commands.join("; ");
        let convert = "kodiak migrate services convert --mesh demo";
        assert_eq!(command(Step::Convert(1, OldItems::Kept)), format!("{convert} --apply"));
        assert_eq!(command(Step::Convert(1, OldItems::Dropped)), format!("{convert} --replace --apply"));
        assert_eq!(command(Step::DropOldItems(1)), format!("{convert} --replace --apply"));
        assert_eq!(command(Step::LookAtRoutes(vec!["MeshHTTPRoute split".to_owned()])), convert);
    }
}
