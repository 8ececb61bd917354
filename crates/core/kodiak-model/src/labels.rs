//! Labels that the control plane reads and sets.

use std::collections::BTreeMap;

use crate::{FieldPath, Kind, Problems, Provider, Scope, dns};

pub const MESH: &str = "kuma.io/mesh";
pub const ORIGIN: &str = "kuma.io/origin";
pub const ZONE: &str = "kuma.io/zone";
pub const ENV: &str = "kuma.io/env";
pub const DISPLAY_NAME: &str = "kuma.io/display-name";
pub const POLICY_ROLE: &str = "kuma.io/policy-role";
pub const PROXY_TYPE: &str = "kuma.io/proxy-type";
pub const WORKLOAD: &str = "kuma.io/workload";
pub const EFFECT: &str = "kuma.io/effect";
pub const MANAGED_BY: &str = "kuma.io/managed-by";
/// When the grace period of a generated MeshService without proxies started.
pub const GRACE_STARTED: &str = "kuma.io/deletion-grace-period-started-at";
pub const LISTENER_ZONE_INGRESS: &str = "kuma.io/listener-zoneingress";
pub const LISTENER_ZONE_EGRESS: &str = "kuma.io/listener-zoneegress";
pub const NAMESPACE: &str = "k8s.kuma.io/namespace";
/// Mode of reachability, of a Mesh or a Dataplane.
pub const REACHABILITY: &str = "kodiak.io/reachability";

const IMMUTABLE: [&str; 3] = [ORIGIN, ZONE, DISPLAY_NAME];

pub type Labels = BTreeMap<String, String>;

/// Role of the control plane that computes labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Zone { name: String },
    Global,
}

impl Place {
    fn origin(&self) -> &'static str {
        match self {
            Self::Zone { .. } => "zone",
            Self::Global => "global",
        }
    }
}

/// Name for display: a synced resource has another name in the store.
pub fn display_name<'a>(labels: &'a Labels, name: &'a str) -> &'a str {
    labels.get(DISPLAY_NAME).filter(|text| !text.is_empty()).map_or(name, String::as_str)
}

/// Labels that a resource is stored with: those of the user, and those that the control plane derives.
pub fn compute(
    kind: &Kind,
    mesh: &str,
    written: &Labels,
    derived: &[(&'static str, Option<&'static str>)],
    place: &Place,
) -> Labels {
    let mut labels = written.clone();
    let mut default = |key: &str, value: &str| {
        labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
    };
    if kind.scope == Scope::Mesh {
        default(MESH, if mesh.is_empty() { "default" } else { mesh });
    }
    if let (Provider::Zone, Place::Zone { name }) = (kind.provider, place) {
        default(ORIGIN, place.origin());
        if written.get(ORIGIN).is_none_or(|origin| origin != "global") {
            default(ZONE, name);
            default(ENV, "universal");
        }
    }
    for (key, value) in derived {
        match value {
            Some(value) => labels.insert((*key).to_owned(), (*value).to_owned()),
            None => labels.remove(*key),
        };
    }
    labels
}

/// Validates user-written labels.
pub fn check(mesh: &str, labels: &Labels, place: &Place, problems: &mut Problems) {
    let at = FieldPath::LABELS;
    // The control plane writes these values itself, although they may not be valid label values: the mesh name and a
    // timestamp. Accepting them lets a response body be sent back in a request.
    let own = |key: &str, value: &str| (key == MESH && value == mesh) || key == GRACE_STARTED;
    for (key, value) in labels.iter().filter(|(key, value)| !own(key, value)) {
        let at = at.key(key);
        for message in dns::qualified_name(key).into_iter().chain(dns::label_value(value)) {
            problems.add(&at, message);
        }
    }
    let origin = labels.get(ORIGIN).map(String::as_str);
    if let Some(origin) = origin.filter(|origin| !["global", "zone"].contains(origin)) {
        problems.add(&at.key(ORIGIN), format!("unknown resource origin {origin:?}"));
    }
    // A mistyped mode would have no effect.
    let mode = labels.get(REACHABILITY).filter(|mode| !["off", "shadow", "on"].contains(&mode.as_str()));
    if let Some(mode) = mode {
        let message = format!("{mode:?} is not a mode of reachability: use \"off\", \"shadow\" or \"on\"");
        problems.add(&at.key(REACHABILITY), message);
    }
    if origin == Some("global") {
        return;
    }
    if let (Some(zone), Place::Zone { name }) = (labels.get(ZONE), place)
        && zone != name
    {
        problems.add(&at.key(ZONE), format!("{ZONE} label should have {name} value"));
    }
    if labels.get(MESH).is_some_and(|label| label != mesh) {
        problems.add(&at.key(MESH), "kuma.io/mesh label must not differ from mesh set on resource");
    }
}

/// Some labels are part of the identity of a resource and must not change.
pub fn check_unchanged(old: &Labels, new: &Labels, problems: &mut Problems) {
    for key in IMMUTABLE {
        let at = FieldPath::LABELS;
        match (old.get(key), new.get(key)) {
            (Some(was), None) => {
                problems.add(&at.key(key), format!("is immutable, cannot be removed (was {was:?})"));
            }
            (Some(was), Some(is)) if was != is => {
                problems.add(&at.key(key), format!("is immutable, cannot be changed from {was:?} to {is:?}"));
            }
            _ => (),
        }
    }
}
