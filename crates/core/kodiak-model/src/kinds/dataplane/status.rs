//! Status of a proxy, computed from its Dataplane and its insight.

use std::fmt;

use super::{Dataplane, InboundState};
use crate::{Word, kinds::dataplane_insight::DataplaneInsight};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyState {
    Online,
    Offline,
    PartiallyDegraded,
}

impl fmt::Display for ProxyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Online => "Online",
            Self::Offline => "Offline",
            Self::PartiallyDegraded => "Partially degraded",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyStatus {
    pub state: ProxyState,
    /// One text for each inbound or listener that is not ready.
    pub notes: Vec<String>,
}

impl Dataplane {
    /// Gateways are online while they are connected. Other proxies also need a ready inbound.
    pub fn status(&self, insight: Option<&DataplaneInsight>) -> ProxyStatus {
        let connected = insight.is_some_and(DataplaneInsight::is_online);
        let (total, notes) = if self.gateway().is_some() { (0, Vec::new()) } else { self.not_ready() };
        let state = match notes.len() {
            _ if !connected => ProxyState::Offline,
            0 => ProxyState::Online,
            faults if faults == total => ProxyState::Offline,
            _ => ProxyState::PartiallyDegraded,
        };
        ProxyStatus { state, notes }
    }

    /// Number of inbounds and listeners, and a note for each that is not ready.
    fn not_ready(&self) -> (usize, Vec<String>) {
        let inbounds = self.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored);
        let inbounds = inbounds.map(|inbound| {
            let (port, service) = (inbound.port, inbound.service().unwrap_or_default());
            (!inbound.is_ready()).then(|| format!("inbound[port={port},svc={service}] is not ready"))
        });
        let listeners = self.listeners().iter().map(|listener| {
            let (port, kind) = (listener.port, listener.listener_type().text());
            (!listener.is_ready()).then(|| format!("listener[port={port},type={kind}] is not ready"))
        });
        let notes: Vec<Option<String>> = inbounds.chain(listeners).collect();
        (notes.len(), notes.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(networking: &Value, connected: bool, state: ProxyState, notes: &[&str]) {
        let dataplane: Dataplane = serde_json::from_value(json!({ "networking": networking })).unwrap();
        let insight = json!({ "subscriptions": [{ "connectTime": "2026-01-01T00:00:00Z" }] });
        let insight: DataplaneInsight = serde_json::from_value(insight).unwrap();
        let found = dataplane.status(connected.then_some(&insight));
        assert_eq!((found.state, found.notes), (state, notes.iter().map(|&note| note.to_owned()).collect()));
    }

    #[test]
    fn proxy_status_follows_inbound_readiness() {
        let good = json!({ "port": 80 });
        let bad = json!({ "port": 81, "tags": { "kuma.io/service": "web" }, "health": {} });
        let note = "inbound[port=81,svc=web] is not ready";
        check(&json!({ "inbound": [good] }), true, ProxyState::Online, &[]);
        check(&json!({ "inbound": [good, bad] }), true, ProxyState::PartiallyDegraded, &[note]);
        check(&json!({ "inbound": [bad] }), true, ProxyState::Offline, &[note]);
        check(&json!({ "inbound": [good, bad] }), false, ProxyState::Offline, &[note]);
    }

    #[test]
    fn listeners_count_and_ignored_inbounds_do_not() {
        let listener = json!({ "type": "ZoneEgress", "port": 10002, "state": "NotReady" });
        let ignored = json!({ "port": 80, "state": "Ignored" });
        let note = "listener[port=10002,type=ZoneEgress] is not ready";
        check(&json!({ "inbound": [ignored], "listeners": [listener] }), true, ProxyState::Offline, &[note]);
        check(
            &json!({ "inbound": [{ "port": 80 }], "listeners": [listener] }),
            true,
            ProxyState::PartiallyDegraded,
            &[note],
        );
    }

    #[test]
    fn proxy_without_inbounds_is_online_while_connected() {
        for networking in [json!({}), json!({ "gateway": {} })] {
            check(&networking, true, ProxyState::Online, &[]);
            check(&networking, false, ProxyState::Offline, &[]);
        }
    }
}
