//! Problems of references, with advice.

use std::collections::BTreeSet;

use std::sync::Arc;

use kodiak_model::{
    Labels, Word as _,
    kinds::{
        dataplane::{BackendKind, Outbound},
        mesh::MeshServicesMode,
    },
    tags,
};

use super::{Asked, ReferenceContext};
use kodiak_world::destination::Destination;

pub(super) const NOT_REDIRECTED: &str = "connections are not redirected to this proxy, so it calls nothing but \
    networking.outbound: list there what it calls, or run it with --transparent-proxy";
pub(super) const OUTBOUND_OF_REDIRECTED: &str = "connections are redirected to this proxy, so it calls everything at \
    virtual addresses and reads no outbounds: delete it, and list what it calls in reachableBackends";
pub(super) const NO_SERVICES: &str = "nothing is called by kuma.io/service where meshServices.mode is Exclusive: delete \
    this list, reachableBackends says it all";
/// Limit of named items; the others are counted.
const MOST_NAMES: usize = 5;

pub(super) fn hidden(objects: usize) -> String {
    format!(
        "this list without reachableBackends hides all objects of the mesh ({objects}) from this proxy: list those that it \
         calls in reachableBackends, or write `reachableBackends: {{refs: []}}` if it calls none"
    )
}

pub(super) fn own_address(outbound: &Outbound) -> String {
    let (address, port) = (outbound.address(), outbound.port);
    format!(
        "{address}:{port} is the address of an inbound of this proxy, so the outbound has no effect: choose another port"
    )
}

pub(super) fn outbound_with_tags(outbound: &Outbound) -> String {
    let service = outbound.tags.get(tags::SERVICE).map_or("", String::as_str);
    format!(
        "nothing is called by kuma.io/service where meshServices.mode is Exclusive, so the outbound to {service:?} has no \
         effect: write a backendRef instead of tags"
    )
}

pub(super) fn ambiguous(means: &[String]) -> String {
    let (count, names) = (means.len(), some(means));
    format!(
        "an outbound targets one port, and this one has no effect, because it matches {count}: {names}; select one by name"
    )
}

pub(super) fn unserved(name: &str, context: ReferenceContext<'_>) -> String {
    let object = context.destinations.iter().find(|destination| destination.kri.name == name);
    let help = match object {
        Some(object) => format!("there is a {} of that name: list it in reachableBackends", object.kind().text()),
        None => "fix the name, or start a Dataplane of the service".to_owned(),
    };
    format!("no Dataplane serves kuma.io/service {name:?}; {help}")
}

pub(super) fn no_stand_in(name: &str) -> String {
    format!(
        "nothing is called by kuma.io/service where meshServices.mode is Exclusive, and no MeshService or \
         MeshMultiZoneService of this zone stands for {name:?}: list what this proxy calls in reachableBackends"
    )
}

pub(super) fn unresolved(asked: &Asked<'_>, context: ReferenceContext<'_>) -> String {
    let Some(kind) = asked.wanted.kind() else {
        let kinds: Vec<&str> = BackendKind::ALL.iter().map(|(text, _)| *text).collect();
        return format!("the kind is none of {}", kinds.join(", "));
    };
    let meant: Vec<&Destination> =
        context.destinations.iter().map(|one| &**one).filter(|destination| asked.wanted.means(destination)).collect();
    match asked.wanted.labels() {
        _ if !meant.is_empty() => not_called(asked, &meant),
        Some(labels) => no_labels(kind, labels, context),
        None => no_name(kind, asked, context),
    }
}

/// The resource exists, but not the port, or not for this zone.
fn not_called(asked: &Asked<'_>, meant: &[&Destination]) -> String {
    let names: Vec<String> = meant.iter().map(|one| format!("{:?}", one.kri.name)).collect();
    let what = format!("{} {}", meant.first().map_or("", |one| one.kind().text()), some(&names));
    let numbers: BTreeSet<u32> = meant.iter().flat_map(|one| one.ports.iter().map(|port| port.port)).collect();
    let there: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match asked.port {
        _ if there.is_empty() => format!("there is {what}, but without ports: give it one"),
        Some(port) if !numbers.contains(&port) => {
            format!("there is {what}, but with no port {port}: use {}", there.join(" or "))
        }
        Some(_) | None => {
            let zones: BTreeSet<&str> = meant.iter().map(|one| one.kri.zone.as_str()).collect();
            let zones: Vec<String> = zones.into_iter().map(|zone| format!("{zone:?}")).collect();
            format!(
                "there is {what}, but it is called only from its own zone, {}: make one for this zone",
                some(&zones)
            )
        }
    }
}

fn no_name(kind: BackendKind, asked: &Asked<'_>, context: ReferenceContext<'_>) -> String {
    let (wanted, Asked { namespace, zone, .. }) = (&asked.wanted, asked);
    let name = wanted.name();
    let missing = format!("there is no {} {name:?}{}", kind.text(), placed(zone, namespace));
    let named = || context.destinations.iter().filter(|destination| destination.kri.name == name);
    let is_here = |destination: &&Arc<Destination>| {
        let kri = &destination.kri;
        kri.namespace == *namespace && (kri.zone == *zone || kri.zone.is_empty())
    };
    if let Some(other) = named().find(is_here) {
        let other = other.kind().text();
        return format!("{missing}, but a {other}: write kind: {other}");
    }
    let same_kind = || named().filter(|destination| destination.kind() == kind);
    let mut here = same_kind().filter(|other| other.kri.zone == *zone || other.kri.zone.is_empty());
    if let Some(other) = here.next() {
        let there = &other.kri.namespace;
        return match there.as_str() {
            "" => format!("{missing}, but one without a namespace: select it by its labels"),
            there => format!("{missing}, but one in namespace {there:?}: write namespace: {there}"),
        };
    }
    if let Some(other) = same_kind().next() {
        let there = &other.kri.zone;
        return format!(
            "{missing}, but one in zone {there:?}: a name means this zone, so select it by labels, kuma.io/display-name: \
             {name} and kuma.io/zone: {there}"
        );
    }
    format!("{missing}; {}", later(kind, context))
}

fn no_labels(kind: BackendKind, wanted: &Labels, context: ReferenceContext<'_>) -> String {
    let has_all = |destination: &&Arc<Destination>| {
        wanted.iter().all(|(key, value)| destination.labels.get(key).is_some_and(|own| own == value))
    };
    let pairs = |labels: &[(&String, &String)]| {
        let pairs: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        some(&pairs)
    };
    if wanted.is_empty() {
        return format!("there is no {} in the mesh; {}", kind.text(), later(kind, context));
    }
    let all: Vec<_> = wanted.iter().collect();
    if let Some(other) = context.destinations.iter().find(has_all) {
        let other = other.kind().text();
        return format!("no {} has {}, but a {other} has: write kind: {other}", kind.text(), pairs(&all));
    }
    let same_kind = || context.destinations.iter().filter(|destination| destination.kind() == kind);
    let nobody_has = |(key, value): &(&String, &String)| {
        !same_kind().any(|destination| destination.labels.get(*key) == Some(*value))
    };
    let missing: Vec<_> = all.iter().copied().filter(nobody_has).collect();
    let help = later(kind, context);
    match missing.as_slice() {
        [] => format!("there is a {} with each of {}, but none with all of them; {help}", kind.text(), pairs(&all)),
        missing => format!("no {} has {}; {help}", kind.text(), pairs(missing)),
    }
}

fn later(kind: BackendKind, context: ReferenceContext<'_>) -> &'static str {
    match (kind, context.mode) {
        (BackendKind::MeshService, MeshServicesMode::Disabled) => {
            "fix the reference, or create one: none is generated from Dataplanes while meshServices.mode is Disabled"
        }
        (BackendKind::MeshService, _) => "fix the reference, or start a Dataplane of the service",
        (BackendKind::MeshExternalService | BackendKind::MeshMultiZoneService, _) => "fix the reference, or create one",
    }
}

/// ` in zone "east" and namespace "shop"`
fn placed(zone: &str, namespace: &str) -> String {
    match (zone, namespace) {
        ("", "") => String::new(),
        (zone, "") => format!(" in zone {zone:?}"),
        ("", namespace) => format!(" in namespace {namespace:?}"),
        (zone, namespace) => format!(" in zone {zone:?} and namespace {namespace:?}"),
    }
}

fn some(names: &[String]) -> String {
    let shown = names.iter().take(MOST_NAMES).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
