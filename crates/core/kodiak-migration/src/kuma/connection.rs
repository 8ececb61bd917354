//! Conversion of legacy policies that select connections by `sources` and `destinations`, or proxies by `selectors`.
//!
//! Policies with the same proxies become one policy, whose items are in the order of their specificity: a later item
//! overrides an earlier one, as the more specific legacy policy does. Two policies that select the same connection are
//! converted only if the same one of them decides before and after, and if it sets every field that the other sets:
//! otherwise fields of the other would be inherited, which Kuma does not do.

use std::cmp::Ordering;

use serde_json::{Value, json};

use super::{
    LegacyPolicy,
    facts::MeshFacts,
    fields::Fields,
    outcome::{ExportedResource, NewResource, Outcomes},
    selector::Selector,
};

/// A legacy kind and its replacement.
pub(super) struct ConnectionKind {
    pub(super) legacy: &'static str,
    pub(super) new: &'static str,
    pub(super) side: Side,
    pub(super) several: Several,
    /// Converts `conf`, for one destination.
    pub(super) conf: fn(Fields, &Selector, &MeshFacts) -> Result<NewConf, String>,
}

pub(super) struct NewConf {
    pub(super) conf: Value,
    pub(super) notes: Vec<String>,
}

impl From<Value> for NewConf {
    fn from(conf: Value) -> Self {
        Self { conf, notes: Vec::new() }
    }
}

/// Proxies that the new policy selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Sources, with `to` for the destinations.
    Sources,
    /// Destinations, with `from` for the sources.
    Destinations,
    /// `selectors`, with one `default`.
    Proxies,
}

/// Effect of several legacy policies for one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Several {
    /// The most specific one is applied.
    MostSpecific,
    /// All are applied, which the new kind cannot do.
    All,
    /// The most specific one is applied, and the new kind would apply all of them.
    NewAppliesAll,
}

/// Part of a legacy policy: one pair of selectors.
struct Item {
    policy: usize,
    proxies: Selector,
    peers: Selector,
    conf: Value,
    notes: Vec<String>,
}

pub(super) fn convert(kind: &ConnectionKind, policies: Vec<LegacyPolicy>, facts: &MeshFacts, out: &mut Outcomes) {
    if let Some(name) = facts.policies(kind.new).first() {
        let reason = format!(
            "the mesh has {} {name:?} too, which takes precedence over every {} in Kuma; converted, they would be merged",
            kind.new, kind.legacy
        );
        let advice = format!("delete it, if it has no effect in Kuma any more; else write a {} by hand", kind.new);
        for policy in policies {
            out.leave_out(policy.resource, reason.clone(), advice.clone());
        }
        return;
    }
    let mut items = Vec::new();
    let mut refused: Vec<Option<String>> = vec![None; policies.len()];
    for (n, policy) in policies.iter().enumerate() {
        match items_of(kind, n, policy, facts) {
            Ok(found) => items.extend(found),
            Err(reason) => refused[n] = Some(reason),
        }
    }
    for (n, one) in items.iter().enumerate() {
        for other in items[n + 1..].iter().filter(|other| other.policy != one.policy) {
            let name = |item: &Item| policies[item.policy].resource.name.as_str();
            if let Some(reason) = conflict(kind, (one, name(one)), (other, name(other)), facts) {
                refused[one.policy].get_or_insert_with(|| reason.clone());
                refused[other.policy].get_or_insert(reason);
            }
        }
    }
    items.retain(|item| refused[item.policy].is_none());
    for group in groups(items) {
        write(kind, &policies, group, facts, out);
    }
    for (policy, reason) in policies.into_iter().zip(refused) {
        if let Some(reason) = reason {
            out.leave_out(policy.resource, reason, format!("write a {} by hand", kind.new));
        }
    }
}

fn items_of(kind: &ConnectionKind, n: usize, policy: &LegacyPolicy, facts: &MeshFacts) -> Result<Vec<Item>, String> {
    let selectors = |field: &str| -> Result<Vec<Selector>, String> {
        let written = policy.document.get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if written.is_empty() {
            return Err(format!("{field} is empty, so it selects nothing"));
        }
        written.iter().map(Selector::read).collect()
    };
    let (proxies, peers) = match kind.side {
        Side::Sources => (selectors("sources")?, selectors("destinations")?),
        Side::Destinations => (selectors("destinations")?, selectors("sources")?),
        Side::Proxies => (selectors("selectors")?, vec![Selector::All]),
    };
    let mut items: Vec<Item> = Vec::new();
    for proxies in &proxies {
        for peers in &peers {
            let destination = match kind.side {
                Side::Sources => peers,
                Side::Destinations | Side::Proxies => proxies,
            };
            let conf = Fields::of(policy.document.get("conf").cloned(), "conf")?;
            let NewConf { conf, notes } = (kind.conf)(conf, destination, facts)?;
            let twice = items.iter().any(|item| item.proxies == *proxies && item.peers == *peers);
            if !twice {
                items.push(Item { policy: n, proxies: proxies.clone(), peers: peers.clone(), conf, notes });
            }
        }
    }
    Ok(items)
}

/// Why two policies cannot both be converted; `None` if they can.
fn conflict(
    kind: &ConnectionKind,
    (one, one_name): (&Item, &str),
    (other, other_name): (&Item, &str),
    facts: &MeshFacts,
) -> Option<String> {
    let same_proxies = one.proxies.overlaps(&other.proxies) || facts.has_both(&one.proxies, &other.proxies);
    let same_peers =
        one.peers.overlaps(&other.peers) || kind.side == Side::Destinations && facts.has_both(&one.peers, &other.peers);
    if !(same_proxies && same_peers) {
        return None;
    }
    let (legacy, new) = (kind.legacy, kind.new);
    let both = format!("{legacy} {one_name:?} and {legacy} {other_name:?} select the same traffic");
    match kind.several {
        Several::MostSpecific => (),
        Several::All => return Some(format!("{both}; Kuma applies both, a proxy would apply one {new} only")),
        Several::NewAppliesAll => {
            return Some(format!("{both}; Kuma applies the more specific one, a proxy would apply every {new}"));
        }
    }
    let before = (one.proxies.rank() + one.peers.rank()).cmp(&(other.proxies.rank() + other.peers.rank()));
    if before == Ordering::Equal {
        return Some(format!("{both} and are equally specific; Kuma applies the newer one, Kodiak would merge both"));
    }
    let after = if one.proxies == other.proxies {
        one.peers.rank().cmp(&other.peers.rank())
    } else {
        one.proxies.precedence().cmp(&other.proxies.precedence())
    };
    if before != after {
        return Some(format!("{both}; Kuma applies the more specific one, a {new} would have another precedence"));
    }
    let ((winner, name), (loser, loser_name)) = match before {
        Ordering::Greater => ((one, one_name), (other, other_name)),
        _ => ((other, other_name), (one, one_name)),
    };
    let missing = missing_field(&loser.conf, &winner.conf, "")?;
    Some(format!(
        "{both}; {name:?} is more specific and does not set {missing}, which it would inherit from {loser_name:?} in Kodiak, and not in Kuma"
    ))
}

/// The first field of `loser` that `winner` does not set. Lists are replaced as a whole.
fn missing_field(loser: &Value, winner: &Value, path: &str) -> Option<String> {
    let Value::Object(fields) = loser else { return None };
    fields.iter().find_map(|(field, value)| {
        let path = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
        match winner.get(field) {
            Some(set) => missing_field(value, set, &path),
            None => Some(path),
        }
    })
}

/// Items by the proxies that they select, in the order of their specificity.
fn groups(items: Vec<Item>) -> Vec<Vec<Item>> {
    let mut groups: Vec<Vec<Item>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| group[0].proxies == item.proxies) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|item| item.peers.rank());
    }
    groups
}

fn write(kind: &ConnectionKind, policies: &[LegacyPolicy], group: Vec<Item>, facts: &MeshFacts, out: &mut Outcomes) {
    let mut from: Vec<ExportedResource> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for item in &group {
        let resource = &policies[item.policy].resource;
        if !from.contains(resource) {
            from.push(resource.clone());
        }
        for note in item.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>() {
            notes.push(note);
        }
    }
    if from.len() > 1 {
        notes.push("one policy replaces them; its items are in the order of their specificity".to_owned());
    }
    if facts.has_mesh_services() && kind.side == Side::Sources {
        notes.push("it applies to traffic to MeshServices too, which the legacy policy did not".to_owned());
    }
    let mut target_ref = group[0].proxies.target_ref();
    if kind.side == Side::Destinations && group[0].proxies == Selector::All {
        // The kinds with `from` that have a legacy form are for sidecars only.
        target_ref["proxyTypes"] = json!(["Sidecar"]);
    }
    let spec = match kind.side {
        Side::Sources => json!({ "targetRef": target_ref, "to": listed(group) }),
        Side::Destinations => json!({ "targetRef": target_ref, "from": listed(group) }),
        Side::Proxies => {
            let conf = group.into_iter().next().map(|item| item.conf);
            json!({ "targetRef": target_ref, "default": conf })
        }
    };
    let ExportedResource { mesh, name, .. } = from[0].clone();
    out.convert(&from, vec![NewResource { kind: kind.new, mesh, name, spec }], notes);
}

fn listed(group: Vec<Item>) -> Vec<Value> {
    group.into_iter().map(|item| json!({ "targetRef": item.peers.target_ref(), "default": item.conf })).collect()
}
