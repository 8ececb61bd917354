//! Changes that the control plane makes to a Dataplane on write.

use std::collections::BTreeMap;

use super::{Dataplane, InboundState};
use crate::tags;

impl Dataplane {
    /// Adds the zone tag to the gateway and every inbound. In `Exclusive` mode tags are optional, so empty tags stay
    /// empty.
    pub fn set_zone_tag(&mut self, zone: &str, exclusive: bool) {
        let Some(networking) = &mut self.networking else { return };
        let tag = |tags: &mut BTreeMap<String, String>| {
            if !(tags.is_empty() && exclusive) {
                tags.insert(tags::ZONE.to_owned(), zone.to_owned());
            }
        };
        networking.inbound.iter_mut().for_each(|inbound| tag(&mut inbound.tags));
        if let Some(gateway) = &mut networking.gateway {
            tag(&mut gateway.tags);
        }
    }

    /// A service with a probe is not ready before its first probe. Later writes keep the probe results.
    pub fn on_create(&mut self) {
        let Some(networking) = &mut self.networking else { return };
        for inbound in &mut networking.inbound {
            if inbound.service_probe.is_some() && inbound.state() != InboundState::Ignored {
                inbound.set_ready(false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn dataplane(networking: &Value) -> Dataplane {
        serde_json::from_value(json!({ "networking": networking })).unwrap()
    }

    #[track_caller]
    fn check(changed: &Dataplane, networking: &Value) {
        assert_eq!(serde_json::to_value(changed).unwrap(), json!({ "networking": networking }));
    }

    #[test]
    fn zone_tag_is_set_on_every_inbound() {
        let written =
            json!({ "inbound": [{ "tags": { "kuma.io/service": "a", "kuma.io/zone": "west" } }, { "port": 80 }] });
        let mut changed = dataplane(&written);
        changed.set_zone_tag("east", false);
        check(
            &changed,
            &json!({ "inbound": [
                { "tags": { "kuma.io/service": "a", "kuma.io/zone": "east" } },
                { "port": 80, "tags": { "kuma.io/zone": "east" } },
            ] }),
        );
    }

    #[test]
    fn exclusive_mesh_keeps_empty_tags() {
        let written = json!({ "gateway": { "tags": { "kuma.io/service": "gw" } }, "inbound": [{ "port": 80 }] });
        let mut changed = dataplane(&written);
        changed.set_zone_tag("east", true);
        check(
            &changed,
            &json!({
                "gateway": { "tags": { "kuma.io/service": "gw", "kuma.io/zone": "east" } },
                "inbound": [{ "port": 80 }],
            }),
        );
    }

    #[test]
    fn probed_inbounds_start_as_not_ready() {
        let written = json!({ "inbound": [{ "port": 1, "serviceProbe": {} }, { "port": 2 }] });
        let mut changed = dataplane(&written);
        changed.on_create();
        check(
            &changed,
            &json!({ "inbound": [{ "port": 1, "health": {}, "serviceProbe": {}, "state": "NotReady" }, { "port": 2 }] }),
        );
    }
}
