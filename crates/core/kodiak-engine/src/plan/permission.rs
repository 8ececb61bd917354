//! Destinations that a class may call.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::Kri;

use super::Sources;
use crate::{class_key::ClassKey, rules::Rules, target::Target};

/// All targets that may be reachable. `None` if that can be any.
pub(super) fn named_targets(key: &ClassKey, rules: &Rules, from: Sources<'_>) -> Option<BTreeSet<Target>> {
    let mut named = key.named_targets()?;
    if let (Some(sets), Some(graph)) = (&key.permitted, from.graph) {
        if rules.have_routes() {
            return None;
        }
        named.extend(sets.iter().flat_map(|set| graph.destinations_of(*set)).cloned());
    }
    Some(named)
}

/// A destination with a route stays: the route may send requests to another one, which the class may call.
pub(super) fn may_call_service(key: &ClassKey, rules: &Rules, from: Sources<'_>, name: &Arc<str>) -> bool {
    is_permitted(key, from, || Target::Service(name.clone()))
        || (rules.have_routes() && rules.for_service(name).is_routed())
}

pub(super) fn may_call_object(key: &ClassKey, rules: &Rules, from: Sources<'_>, kri: &Arc<Kri>) -> bool {
    let is_routed = || {
        let Some(object) = from.objects.get(kri) else { return false };
        object.destination.ports.iter().any(|port| rules.for_port(&object.resource, &port.section).is_routed())
    };
    is_permitted(key, from, || Target::Object(kri.clone())) || (rules.have_routes() && is_routed())
}

/// An unknown destination is permitted.
fn is_permitted(key: &ClassKey, from: Sources<'_>, target: impl FnOnce() -> Target) -> bool {
    let (Some(sets), Some(graph)) = (&key.permitted, from.graph) else { return true };
    graph.set_of(&target()).is_none_or(|set| sets.binary_search(&set).is_ok())
}
