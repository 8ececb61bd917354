//! Next safe step of the migration, its alternatives and its rollback.

use std::collections::BTreeSet;

use kodiak_model::kinds::mesh::MeshServicesMode;

use super::{Break, Consumer, Lists, OldItems, Outcome, ServiceStanding, Standing};

/// Facts about a mesh and its consumers.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
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
    /// The counters were watched for a while; without, they count since the start of each proxy.
    pub watched: bool,
    /// Consumers that lose destinations in some mode.
    pub broken: Vec<Broken>,
    /// Consumers that call objects.
    pub calling_objects: Vec<String>,
}

/// Consumer that loses a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub consumer: String,
    pub lost: Break,
}

/// Traffic of a consumer, by the counters of its Envoy.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrafficFacts {
    /// Values of `kuma.io/service` that it called.
    pub services: BTreeSet<String>,
    /// Whether it called objects.
    pub objects: bool,
}

impl Facts {
    /// Traffic is `None` for a consumer whose Envoy did not respond.
    pub fn of(
        standing: &Standing,
        consumers: &[(Consumer, Option<TrafficFacts>)],
        watched: bool,
        examined: bool,
    ) -> Self {
        let Standing { mesh: _, mode, services, policies } = standing;
        let mode = *mode;
        let missing = |generated: bool| {
            let missing = services.iter().filter(|one| one.objects.is_empty() && one.generated == generated);
            missing.map(|one| one.service.clone()).collect::<Vec<_>>()
        };
        let having = |outcome: Outcome| policies.iter().filter(move |policy| policy.has(outcome));
        let named = |outcome| having(outcome).map(|policy| format!("{} {}", policy.kind, policy.name)).collect();
        let is_unlisted = |consumer: &Consumer| {
            mode == MeshServicesMode::ReachableBackends
                && matches!(consumer.lists, Lists::Nothing | Lists::Services)
                && !consumer.old.is_empty()
        };
        let consumers_with = |wanted: &dyn Fn(&Consumer, Option<&TrafficFacts>) -> bool| {
            let wanted = consumers.iter().filter(|(consumer, traffic)| wanted(consumer, traffic.as_ref()));
            wanted.map(|(consumer, _)| consumer.name.clone()).collect::<Vec<_>>()
        };
        let broken = consumers.iter().flat_map(|(consumer, _)| {
            consumer.breaks.iter().map(|lost| Broken { consumer: consumer.name.clone(), lost: lost.clone() })
        });
        Self {
            mode,
            consumers: consumers.len(),
            clusters: services.iter().map(clusters).sum(),
            not_there: missing(true),
            never_there: missing(false),
            convertible: having(Outcome::Converted).count(),
            converted: having(Outcome::ConvertedBefore).count(),
            unclear: named(Outcome::Unclear),
            routes: named(Outcome::Examine),
            examined,
            unlisted: consumers_with(&|consumer, _| is_unlisted(consumer)),
            moving: consumers.iter().filter_map(|(consumer, traffic)| moving(consumer, traffic.as_ref()?)).collect(),
            unknown: consumers_with(&|consumer, traffic| traffic.is_none() && !consumer.old.is_empty()),
            cross_zone: services.iter().filter(|one| one.stays_in_one_zone()).map(|one| one.service.clone()).collect(),
            watched,
            broken: broken.collect(),
            calling_objects: consumers_with(&|_, traffic| traffic.is_some_and(|traffic| traffic.objects)),
        }
    }

    fn broken_in(&self, mode: MeshServicesMode) -> Vec<Broken> {
        self.broken.iter().filter(|broken| broken.lost.mode == mode).cloned().collect()
    }
}

/// Those that a service brings, or would bring.
fn clusters(service: &ServiceStanding) -> usize {
    let there: usize = service.objects.iter().map(|object| object.ports.len()).sum();
    if there == 0 && service.generated { service.ports } else { there }
}

fn moving(consumer: &Consumer, traffic: &TrafficFacts) -> Option<Moving> {
    let call = |service: &String| Call {
        service: service.clone(),
        hostnames: consumer.replacements.get(service).cloned().unwrap_or_default(),
    };
    let calls: Vec<Call> = traffic.services.iter().map(call).collect();
    (!calls.is_empty()).then(|| Moving { consumer: consumer.name.clone(), calls })
}

/// Consumer, and the services that it still calls by tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moving {
    pub consumer: String,
    pub calls: Vec<Call>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    pub service: String,
    /// Replacements that the consumer reaches; empty when there are none yet.
    pub hostnames: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub next: Step,
    /// Other steps that are possible now.
    pub also: Vec<Step>,
    pub back: Vec<Step>,
}

/// Step with its arguments. Titles, reasons and commands are made where the plan is presented.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    SetMode(MeshServicesMode, Because),
    /// Wait for the MeshServices of these services.
    Wait(Vec<String>),
    /// Create MeshServices for these services, because none can be generated.
    WriteServices(Vec<String>),
    /// Add MeshService references to this many policies.
    Convert(usize, OldItems),
    LookAtPolicies(Vec<String>),
    LookAtRoutes(Vec<String>),
    MakeMultiZoneServices(Vec<String>),
    /// Write `reachableBackends` for the first of these proxies.
    ListBackends(Vec<String>),
    /// As an alternative: for all of these proxies, in any order.
    ListMoreBackends(Vec<String>),
    MoveConsumers(Vec<Moving>),
    /// Change the Dataplanes of these consumers, which lose destinations that they name.
    FixConsumers(Vec<Broken>),
    /// Move these consumers back to legacy names, before a rollback.
    MoveBack(Vec<String>),
    /// These consumers have to be connected first.
    Connect(Vec<String>),
    Watch,
    /// Delete legacy references that have no effect, of this many policies.
    DropOldItems(usize),
    Nothing,
}

/// Reason of a new mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Because {
    /// This many clusters are added for each of this many consumers, and nothing else changes.
    OnlyAdds {
        clusters: usize,
        consumers: usize,
    },
    /// Only consumers that list `reachableBackends` change.
    OneByOne,
    /// No legacy cluster was called while the counters were watched.
    Unused,
    Rollback,
}

/// First step whose preconditions hold. No step removes anything in use.
pub fn plan(facts: &Facts) -> Plan {
    let next = match facts.mode {
        MeshServicesMode::Disabled => {
            let Facts { clusters, consumers, .. } = *facts;
            Step::SetMode(MeshServicesMode::Everywhere, Because::OnlyAdds { clusters, consumers })
        }
        MeshServicesMode::Everywhere | MeshServicesMode::ReachableBackends => beside(facts),
        MeshServicesMode::Exclusive => alone(facts),
    };
    Plan { also: also(facts, &next), back: back(facts), next }
}

/// Old and new are there: first what policies say, then who calls what.
fn beside(facts: &Facts) -> Step {
    let Facts { not_there, never_there, unclear, routes, unlisted, moving, unknown, .. } = facts;
    if !not_there.is_empty() {
        return Step::Wait(not_there.clone());
    }
    if facts.convertible > 0 {
        return Step::Convert(facts.convertible, OldItems::Kept);
    }
    if !unclear.is_empty() && !facts.examined {
        return Step::LookAtPolicies(unclear.clone());
    }
    if !never_there.is_empty() && !facts.examined {
        return Step::WriteServices(never_there.clone());
    }
    if !routes.is_empty() && !facts.examined {
        return Step::LookAtRoutes(routes.clone());
    }
    if facts.mode == MeshServicesMode::ReachableBackends && !unlisted.is_empty() {
        return Step::ListBackends(unlisted.clone());
    }
    if !moving.is_empty() {
        return Step::MoveConsumers(moving.clone());
    }
    if !unknown.is_empty() {
        return Step::Connect(unknown.clone());
    }
    if !facts.watched {
        return Step::Watch;
    }
    let broken = facts.broken_in(MeshServicesMode::Exclusive);
    if !broken.is_empty() {
        return Step::FixConsumers(broken);
    }
    Step::SetMode(MeshServicesMode::Exclusive, Because::Unused)
}

fn alone(facts: &Facts) -> Step {
    let broken = facts.broken_in(MeshServicesMode::Exclusive);
    if !broken.is_empty() {
        return Step::FixConsumers(broken);
    }
    match (facts.converted, facts.convertible) {
        (0, 0) => Step::Nothing,
        (0, convertible) => Step::Convert(convertible, OldItems::Dropped),
        (converted, _) => Step::DropOldItems(converted),
    }
}

/// Steps that need not wait, and do not hold up others.
fn also(facts: &Facts, next: &Step) -> Vec<Step> {
    let Facts { mode, cross_zone, unlisted, .. } = facts;
    let mut steps = Vec::new();
    if !cross_zone.is_empty() && *mode != MeshServicesMode::Exclusive {
        steps.push(Step::MakeMultiZoneServices(cross_zone.clone()));
    }
    let hides = !facts.broken_in(MeshServicesMode::ReachableBackends).is_empty();
    if *mode == MeshServicesMode::Disabled && matches!(next, Step::SetMode(..)) && !hides {
        steps.push(Step::SetMode(MeshServicesMode::ReachableBackends, Because::OneByOne));
    }
    if *mode == MeshServicesMode::ReachableBackends && !unlisted.is_empty() && !matches!(next, Step::ListBackends(_)) {
        steps.push(Step::ListMoreBackends(unlisted.clone()));
    }
    steps
}

fn back(facts: &Facts) -> Vec<Step> {
    let to = |mode| vec![Step::SetMode(mode, Because::Rollback)];
    match facts.mode {
        MeshServicesMode::Disabled => Vec::new(),
        MeshServicesMode::Everywhere | MeshServicesMode::ReachableBackends if !facts.calling_objects.is_empty() => {
            vec![Step::MoveBack(facts.calling_objects.clone())]
        }
        MeshServicesMode::Everywhere | MeshServicesMode::ReachableBackends => to(MeshServicesMode::Disabled),
        MeshServicesMode::Exclusive => to(MeshServicesMode::Everywhere),
    }
}
