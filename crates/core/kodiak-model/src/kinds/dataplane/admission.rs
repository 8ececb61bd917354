//! Admission record of a Dataplane that a proxy registered: which of its claims its token binds.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::spec::{Health, Inbound, InboundState};
use crate::{Choice, kinds::mesh_service::Selector, labels, proto_json::is_default, tags};

/// Status of a stored Dataplane. Only the control plane writes it; no document contains it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneStatus {
    /// `None` for a Dataplane that a user wrote.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<Admission>,
    /// The process of the proxy reported that it is about to end. The next process, which asks for a bootstrap, clears it.
    #[serde(skip_serializing_if = "is_default")]
    pub draining: bool,
    /// Envoy failed its own `/ready`, so it drains. The next process clears it, and so does an Envoy that is ready again.
    #[serde(skip_serializing_if = "is_default")]
    pub not_live: bool,
    /// Inbounds that are NotReady because of that, as they were before: whichever control plane the next process
    /// connects to restores them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<HeldInbound>,
}

/// Readiness of an inbound before it was made NotReady.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeldInbound {
    pub port: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<Choice<InboundState>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
}

impl HeldInbound {
    pub fn of(inbound: &Inbound) -> Self {
        Self { port: inbound.port, state: inbound.state.clone(), health: inbound.health.clone() }
    }

    /// Gives the inbound the readiness that it had, and returns whether that changed it.
    pub fn restore(&self, inbound: &mut Inbound) -> bool {
        let changed = inbound.state != self.state || inbound.health != self.health;
        inbound.state.clone_from(&self.state);
        inbound.health.clone_from(&self.health);
        changed
    }
}

/// Claims of the token with which a proxy registered its Dataplane.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Admission {
    /// Tag keys.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Label keys.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Whether the token is bound to one name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub name: bool,
}

impl Admission {
    /// For an unreadable status: the token binds nothing.
    pub fn unknown() -> Self {
        Self { tags: [tags::SERVICE.to_owned()].into(), ..Self::default() }
    }

    /// Whether a MeshService with this selector may accept the proxy under this identity.
    ///
    /// A holder of a token that does not bind `kuma.io/service` may take any identity of the mesh; being accepted under
    /// one gains nothing. Otherwise the selector must only require tags and labels that the token binds, or name the
    /// identity itself.
    pub fn vouches_for(&self, selector: &Selector, identity: &str) -> bool {
        self.vouches_for_all(selector) || names(selector, identity)
    }

    /// Like [`vouches_for`](Self::vouches_for), for a proxy that has any of these identities.
    pub fn vouches_for_any<'a>(&self, selector: &Selector, identities: impl IntoIterator<Item = &'a String>) -> bool {
        self.vouches_for_all(selector) || identities.into_iter().any(|identity| names(selector, identity))
    }

    fn vouches_for_all(&self, selector: &Selector) -> bool {
        !self.tags.contains(tags::SERVICE) || self.unbound(selector).is_empty()
    }

    /// Selector keys that the token does not bind, as a user would write them.
    pub fn unbound(&self, selector: &Selector) -> Vec<String> {
        let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
        let mut unbound = Vec::new();
        if let Some(wanted) = dataplane_tags {
            // The control plane itself sets the zone tag.
            let free = wanted.keys().filter(|key| *key != tags::ZONE && !self.tags.contains(*key));
            unbound.extend(free.map(|key| format!("tag {key}")));
        } else if dataplane_ref.is_some() {
            unbound.extend((!self.name).then(|| "name".to_owned()));
        } else if let Some(wanted) = dataplane_labels.as_ref().and_then(|wanted| wanted.match_labels.as_ref()) {
            let free = wanted.keys().filter(|key| !self.labels.contains(*key));
            unbound.extend(free.map(|key| format!("label {key}")));
        }
        unbound
    }
}

fn names(selector: &Selector, identity: &str) -> bool {
    let Selector { dataplane_tags, dataplane_ref, dataplane_labels } = selector;
    let named = match (dataplane_tags, dataplane_ref, dataplane_labels) {
        (Some(wanted), _, _) => wanted.get(tags::SERVICE),
        (None, None, Some(wanted)) => wanted.match_labels.as_ref().and_then(|wanted| wanted.get(labels::WORKLOAD)),
        (None, _, _) => None,
    };
    named.is_some_and(|named| named == identity)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn admission(tags: &[&str], labels: &[&str], name: bool) -> Admission {
        let own = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        Admission { tags: own(tags), labels: own(labels), name }
    }

    #[track_caller]
    fn check(admission: &Admission, selector: &Value, identity: &str, expected: bool) {
        let selector: Selector = serde_json::from_value(selector.clone()).unwrap();
        assert_eq!(admission.vouches_for(&selector, identity), expected, "{selector:?}");
    }

    const SERVICE: &str = "kuma.io/service";

    #[test]
    fn rejects_unbound_labels_of_a_bound_service() {
        let payments = json!({ "dataplaneLabels": { "matchLabels": { "app": "payments" } } });
        check(&admission(&[SERVICE], &[], true), &payments, "web", false);
        check(&admission(&[SERVICE], &["team"], true), &payments, "web", false);
        check(&admission(&[SERVICE], &["app"], false), &payments, "web", true);
        check(&admission(&["version"], &[], false), &payments, "web", true);
        check(&Admission::unknown(), &payments, "web", false);
        let all = json!({ "dataplaneLabels": { "matchLabels": {} } });
        check(&admission(&[SERVICE], &[], false), &all, "web", true);
    }

    #[test]
    fn tags_and_names_must_be_bound_too() {
        let tags = json!({ "dataplaneTags": { SERVICE: "payments", "version": "1", "kuma.io/zone": "east" } });
        check(&admission(&[SERVICE], &[], false), &tags, "web", false);
        check(&admission(&[SERVICE], &[], false), &tags, "payments", true);
        check(&admission(&[SERVICE, "version"], &[], false), &tags, "web", true);
        let reference = json!({ "dataplaneRef": { "name": "payments-1" } });
        check(&admission(&[SERVICE], &[], false), &reference, "web", false);
        check(&admission(&[SERVICE], &[], true), &reference, "web", true);
    }

    #[test]
    fn selector_may_name_the_identity_itself() {
        let workload = json!({ "dataplaneLabels": { "matchLabels": { "kuma.io/workload": "payments" } } });
        check(&admission(&[SERVICE], &[], false), &workload, "payments", true);
        check(&admission(&[SERVICE], &[], false), &workload, "web", false);
    }

    #[test]
    fn unbound_keys_are_listed() {
        let selector: Selector =
            serde_json::from_value(json!({ "dataplaneTags": { SERVICE: "a", "version": "1", "team": "b" } })).unwrap();
        assert_eq!(admission(&[SERVICE], &[], false).unbound(&selector), ["tag team", "tag version"]);
    }

    #[test]
    fn status_round_trips() {
        let status =
            DataplaneStatus { admission: Some(admission(&[SERVICE], &["app"], true)), ..DataplaneStatus::default() };
        let text = r#"{"admission":{"tags":["kuma.io/service"],"labels":["app"],"name":true}}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
        assert_eq!(serde_json::from_str::<DataplaneStatus>(text).unwrap(), status);
    }
}
