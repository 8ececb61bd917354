//! Admission record of a Dataplane that a proxy registered: which of its claims somebody vouches for.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::spec::{Dataplane, Health, Inbound, InboundState};
use crate::{Choice, Labels, proto_json::is_default, tags};

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

/// Fields of a Dataplane that a proxy registered which somebody vouches for: its token, or a user. What follows from them
/// for MeshServices and SPIFFE IDs is decided in `kodiak-identity`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Admission {
    /// Keys of tags that the token binds.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    /// Keys of labels that the token binds.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
    /// Whether the token is bound to one name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub name: bool,
    /// Keys whose values a user wrote after the proxy registered the Dataplane.
    #[serde(skip_serializing_if = "is_default")]
    pub written: WrittenKeys,
    /// The stored status is unreadable, so nothing is vouched for.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unreadable: bool,
}

/// Keys of tags and labels.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WrittenKeys {
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub tags: BTreeSet<String>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub labels: BTreeSet<String>,
}

/// Dataplanes that the holder of a token may connect as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenScope {
    /// Every proxy of the mesh: it binds nothing, or proxies are not authenticated.
    AnyProxy,
    /// Proxies of any service: it binds a name or other tags, and neither `kuma.io/service` nor a label.
    AnyService,
    /// Proxies with the `kuma.io/service` or the labels that it binds.
    Bound,
}

impl Admission {
    /// For an unreadable status: nothing is vouched for.
    pub fn unknown() -> Self {
        Self { unreadable: true, ..Self::default() }
    }

    pub fn scope(&self) -> TokenScope {
        let Self { tags, labels, name, written: _, unreadable } = self;
        if *unreadable || tags.contains(tags::SERVICE) || !labels.is_empty() {
            TokenScope::Bound
        } else if *name || !tags.is_empty() {
            TokenScope::AnyService
        } else {
            TokenScope::AnyProxy
        }
    }

    /// Whether the token binds the tag, or a user wrote its values.
    pub fn vouches_for_tag(&self, key: &str) -> bool {
        self.tags.contains(key) || self.written.tags.contains(key)
    }

    /// Whether the token binds the label, or a user wrote its value.
    pub fn vouches_for_label(&self, key: &str) -> bool {
        self.labels.contains(key) || self.written.labels.contains(key)
    }

    /// After a user replaced the Dataplane: the user vouches for the keys that the write changed, and for no other. A tag has
    /// one value for each inbound; one that the proxy claimed and that stays is still a claim.
    #[must_use]
    pub fn after_write(&self, old: (&Labels, &Dataplane), new: (&Labels, &Dataplane)) -> Self {
        let (labels, dataplane) = new;
        let is_rewritten = |key: &String| old.0.get(key) != labels.get(key);
        let written_labels = labels.keys().filter(|key| self.written.labels.contains(*key) || is_rewritten(key));
        let (before, after) = (values_of_tags(old.1), values_of_tags(dataplane));
        let is_replaced = |key: &str, values: &BTreeSet<&str>| {
            before.get(key).is_none_or(|before| before.is_disjoint(values) || self.written.tags.contains(key))
        };
        let written_tags = after.iter().filter(|(key, values)| is_replaced(key, values)).map(|(key, _)| *key);
        let written =
            WrittenKeys { tags: written_tags.map(str::to_owned).collect(), labels: written_labels.cloned().collect() };
        Self { written, ..self.clone() }
    }
}

fn values_of_tags(dataplane: &Dataplane) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (key, value) in dataplane.tag_sets().flatten() {
        values.entry(key).or_default().insert(value);
    }
    values
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    const SERVICE: &str = "kuma.io/service";

    fn admission(tags: &[&str], labels: &[&str], name: bool) -> Admission {
        let own = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        Admission { tags: own(tags), labels: own(labels), name, ..Admission::default() }
    }

    #[test]
    fn scope_follows_from_the_keys_that_the_token_binds() {
        for (admission, scope) in [
            (Admission::default(), TokenScope::AnyProxy),
            (admission(&[], &[], true), TokenScope::AnyService),
            (admission(&["version"], &[], false), TokenScope::AnyService),
            (admission(&[SERVICE], &[], false), TokenScope::Bound),
            (admission(&["version"], &["app"], true), TokenScope::Bound),
            (Admission::unknown(), TokenScope::Bound),
        ] {
            assert_eq!(admission.scope(), scope, "{admission:?}");
        }
        let mut written = admission(&[], &[], true);
        written.written.labels.insert("app".to_owned());
        assert_eq!(written.scope(), TokenScope::AnyService, "the write of a user does not narrow the token");
    }

    #[test]
    fn status_round_trips() {
        let mut all = admission(&[SERVICE], &["app"], true);
        all.written.labels.insert("team".to_owned());
        let status = DataplaneStatus { admission: Some(all), ..DataplaneStatus::default() };
        let text =
            r#"{"admission":{"tags":["kuma.io/service"],"labels":["app"],"name":true,"written":{"labels":["team"]}}}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
        assert_eq!(serde_json::from_str::<DataplaneStatus>(text).unwrap(), status);
    }

    /// Labels, and the tags of two inbounds.
    type Claims = (BTreeMap<String, String>, [BTreeMap<String, String>; 2]);

    fn keys() -> impl Strategy<Value = BTreeMap<String, String>> {
        proptest::collection::btree_map("[abc]", "[xyz]", 0..3)
    }

    fn claims() -> impl Strategy<Value = Claims> {
        (keys(), [keys(), keys()])
    }

    fn dataplane(tags: &[BTreeMap<String, String>; 2]) -> Dataplane {
        let inbounds: Vec<_> = tags.iter().map(|tags| json!({ "port": 80, "tags": tags })).collect();
        serde_json::from_value(json!({ "networking": { "address": "10.0.0.1", "inbound": inbounds } })).unwrap()
    }

    fn values(tags: &[BTreeMap<String, String>; 2], key: &str) -> BTreeSet<String> {
        tags.iter().filter_map(|tags| tags.get(key)).cloned().collect()
    }

    proptest! {
        /// A key is vouched for only if the token binds it, or a user set its present values when they differed.
        #[test]
        fn user_vouches_for_changed_keys_alone(registered in claims(), bound in keys(), writes in proptest::collection::vec(claims(), 1..6)) {
            let bound: Vec<&str> = bound.keys().map(String::as_str).collect();
            let mut admission = admission(&bound, &bound, false);
            // Values that only the proxy ever claimed, as long as they are there.
            let mut claimed_labels = registered.0.clone();
            let mut claimed_tags = registered.1.iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeSet<_>>();
            let mut old = registered;
            for new in writes {
                admission = admission.after_write((&old.0, &dataplane(&old.1)), (&new.0, &dataplane(&new.1)));
                claimed_labels.retain(|key, value| new.0.get(key) == Some(value));
                claimed_tags.retain(|(key, value)| values(&new.1, key).contains(value));
                for key in ["a", "b", "c"] {
                    let is_bound = bound.contains(&key);
                    let is_claim = claimed_labels.contains_key(key);
                    prop_assert_eq!(
                        admission.vouches_for_label(key) , is_bound || new.0.contains_key(key) && !is_claim
                    );
                    let is_claim = claimed_tags.iter().any(|(claimed, _)| claimed == key);
                    if is_claim && !is_bound {
                        prop_assert!(!admission.vouches_for_tag(key), "{} is still what the proxy claimed", key);
                    }
                    if !is_claim && !values(&new.1, key).is_empty() && values(&old.1, key).is_disjoint(&values(&new.1, key)) {
                        prop_assert!(admission.vouches_for_tag(key), "a user wrote all values of {}", key);
                    }
                }
                old = new;
            }
        }
    }
}
