//! The services of a mesh by `kuma.io/service`: those that a Dataplane serves.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Protocol, kinds::dataplane::Dataplane};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TagServices {
    by_dataplane: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Names with the number of Dataplanes that serve them.
    names: BTreeMap<Arc<str>, usize>,
}

impl TagServices {
    /// Replaces a Dataplane. Returns whether a service was added or removed.
    pub fn set(&mut self, name: &Arc<str>, dataplane: Option<&Dataplane>) -> bool {
        let after: BTreeSet<Arc<str>> = dataplane.into_iter().flat_map(names).collect();
        let before = match dataplane {
            Some(_) if !after.is_empty() => self.by_dataplane.insert(name.clone(), after.clone()),
            Some(_) | None => self.by_dataplane.remove(name),
        };
        let before = before.unwrap_or_default();
        let mut changed = false;
        for service in after.difference(&before) {
            let count = self.names.entry(service.clone()).or_default();
            *count += 1;
            changed |= *count == 1;
        }
        for service in before.difference(&after) {
            if let Some(count) = self.names.get_mut(service) {
                *count -= 1;
                if *count == 0 {
                    self.names.remove(service);
                    changed = true;
                }
            }
        }
        changed
    }

    pub fn names(&self) -> impl Iterator<Item = &Arc<str>> + Clone {
        self.names.keys()
    }
}

fn names(dataplane: &Dataplane) -> impl Iterator<Item = Arc<str>> {
    let served = dataplane.inbounds().iter().filter(|inbound| inbound.is_served());
    served.filter_map(|inbound| inbound.service().map(Arc::from))
}

/// The protocol that all of these support: TCP if they have no other in common.
pub fn common_protocol(protocols: impl IntoIterator<Item = Protocol>) -> Option<Protocol> {
    protocols.into_iter().reduce(|one, other| match (one, other) {
        (one, other) if one == other => one,
        (Protocol::Grpc, Protocol::Http2) | (Protocol::Http2, Protocol::Grpc) => Protocol::Http2,
        _ => Protocol::Tcp,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dataplane(inbounds: &serde_json::Value) -> Dataplane {
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } })).unwrap()
    }

    fn serving(services: &[&str]) -> Dataplane {
        let inbound = |service: &&str| json!({ "port": 80, "tags": { "kuma.io/service": service } });
        dataplane(&services.iter().map(inbound).collect())
    }

    fn names_of(services: &TagServices) -> Vec<&str> {
        services.names().map(|name| &**name).collect()
    }

    #[test]
    fn service_exists_while_a_dataplane_serves_it() {
        let mut services = TagServices::default();
        let [one, two] = ["one", "two"].map(Arc::from);
        assert!(services.set(&one, Some(&serving(&["web", "web", "db"]))));
        assert!(!services.set(&two, Some(&serving(&["web"]))));
        assert_eq!(names_of(&services), ["db", "web"]);
        assert!(services.set(&one, None));
        assert_eq!(names_of(&services), ["web"]);
        assert!(services.set(&two, Some(&serving(&["db"]))));
        assert_eq!(names_of(&services), ["db"]);
        assert!(services.set(&two, None));
        assert_eq!(services, TagServices::default());
    }

    #[test]
    fn inbounds_without_a_listener_provide_no_service() {
        let mut services = TagServices::default();
        let inbounds = json!([
            { "port": 80, "state": "Ignored", "tags": { "kuma.io/service": "ignored" } },
            { "port": 49151, "tags": { "kuma.io/service": "serviceless" } },
            { "port": 81, "state": "NotReady", "tags": { "kuma.io/service": "starting" } },
        ]);
        services.set(&"one".into(), Some(&dataplane(&inbounds)));
        assert_eq!(names_of(&services), ["starting"]);
    }

    #[test]
    fn different_protocols_fall_back_to_tcp() {
        assert_eq!(common_protocol([Protocol::Http, Protocol::Http]), Some(Protocol::Http));
        assert_eq!(common_protocol([Protocol::Grpc, Protocol::Http2]), Some(Protocol::Http2));
        assert_eq!(common_protocol([Protocol::Http, Protocol::Http2]), Some(Protocol::Tcp));
        assert_eq!(common_protocol([]), None);
    }
}
