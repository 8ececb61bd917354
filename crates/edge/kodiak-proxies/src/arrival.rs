//! A proxy that comes is called when it can answer, not when it is known.
//!
//! Envoy listens only when it was told everything, and that is some time after its Dataplane is stored. Until then the
//! inbounds are NotReady, as those of a proxy that drains. One that was ready before stays so: its proxy went on serving
//! while it was not connected. Where a workload is probed, its inbound then is what the probes find.

use kodiak_model::kinds::dataplane::{Dataplane, Inbound};
use kodiak_xds::health::is_probed;

use crate::{Registry, drain::drain_inbound};

/// Makes inbounds NotReady that were not ready until now, and gives back what they were; nothing when there are none.
/// With `probes`, those that are probed stay as they are stored, and are not given back: probes will say what they are.
pub(crate) fn hold_back(brought: &mut Dataplane, stored: Option<&Dataplane>, probes: bool) -> Option<Vec<Inbound>> {
    let serves = |inbound: &Inbound| {
        let known = stored.into_iter().flat_map(Dataplane::inbounds).find(|known| known.port == inbound.port);
        known.is_some_and(Inbound::is_ready)
    };
    let mut held_back = None;
    for inbound in brought.networking.iter_mut().flat_map(|networking| &mut networking.inbound) {
        let serves = serves(inbound);
        if probes && is_probed(inbound) {
            if inbound.is_ready() != serves {
                inbound.set_ready(serves);
            }
            if !serves {
                held_back.get_or_insert_with(Vec::new);
            }
        } else if inbound.is_ready() && !serves {
            held_back.get_or_insert_with(Vec::new).push(drain_inbound(inbound));
        }
    }
    held_back
}

impl Registry {
    /// Lets those be called that have arrived.
    pub(crate) async fn welcome(&self) {
        let arrived = std::mem::take(&mut self.state().welcome);
        for key in arrived {
            if let Err(error) = self.undrain(&key).await {
                tracing::warn!(proxy = %key, %error, "Cannot say that a proxy is ready; will try again.");
                self.state().welcome.insert(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn dataplane(inbounds: &[(u32, &str)]) -> Dataplane {
        let inbound = |(port, state): &(u32, &str)| json!({ "port": port, "state": state });
        let inbounds: Vec<_> = inbounds.iter().map(inbound).collect();
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } })).unwrap()
    }

    #[track_caller]
    fn check(brought: &[(u32, &str)], stored: Option<&[(u32, &str)]>, expected: &[(u32, bool)]) {
        let mut new = dataplane(brought);
        let held_back = hold_back(&mut new, stored.map(dataplane).as_ref(), true).unwrap_or_default();
        let found: Vec<_> = new.inbounds().iter().map(|inbound| (inbound.port, inbound.is_ready())).collect();
        assert_eq!(found, expected);
        assert!(held_back.iter().all(Inbound::is_ready));
    }

    #[test]
    fn a_new_proxy_is_not_ready() {
        check(&[(1, "Ready"), (2, "NotReady")], None, &[(1, false), (2, false)]);
    }

    #[test]
    fn what_was_ready_stays_ready_and_nothing_else() {
        let stored = [(1, "Ready"), (2, "NotReady")];
        check(&[(1, "Ready"), (2, "Ready"), (3, "Ready")], Some(&stored), &[(1, true), (2, false), (3, false)]);
        check(&[(1, "NotReady")], Some(&stored), &[(1, false)]);
    }

    /// One that is probed, in this state.
    fn probed(state: &str) -> Dataplane {
        let inbound = json!({ "port": 1, "state": state, "serviceProbe": {} });
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": [inbound] } })).unwrap()
    }

    #[test]
    fn what_is_probed_stays_as_probes_found_it() {
        for written in ["Ready", "NotReady"] {
            for (stored, ready) in [(None, false), (Some("NotReady"), false), (Some("Ready"), true)] {
                let mut new = probed(written);
                let held_back = hold_back(&mut new, stored.map(probed).as_ref(), true);
                assert_eq!(new.inbounds()[0].is_ready(), ready, "{written} {stored:?}");
                assert_eq!(held_back, (!ready).then(Vec::new), "it arrives, and probes say the rest");
            }
        }
    }

    #[test]
    fn without_probes_what_is_probed_is_as_others() {
        let mut new = probed("Ready");
        assert_eq!(hold_back(&mut new, None, false).unwrap().len(), 1);
        assert!(!new.inbounds()[0].is_ready());
    }
}
