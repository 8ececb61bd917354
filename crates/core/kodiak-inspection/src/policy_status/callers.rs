//! Callers that a policy does not match: there are no certificates, or they have no tags.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::{accepts, issuing};
use kodiak_model::{InboundTls, Kri, TargetRef, kinds::mesh_identity, policy::Body};
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, Proxy, outbound::NameResolution};

use super::{PolicyStatusContext, Reason, Why, followed::tags_of};

/// Whether inbounds of a proxy request certificates. A mode does not change that.
pub(super) fn are_known(rollout: &Rollout, server: &Proxy) -> bool {
    accepts(rollout, server, None) != InboundTls::Plaintext
}

/// For a policy about callers by their certificates, of `selected` proxies `in_plain_text`.
pub(super) fn unknown(in_plain_text: usize, selected: usize) -> Reason {
    let place = place(in_plain_text, selected);
    let text =
        format!("{place}inbounds accept plain text, so it is not enforced and every call is allowed: {MUTUAL_TLS}");
    Reason::new(Why::NoMutualTls, text)
}

const MUTUAL_TLS: &str = "enable mutual TLS in the Mesh (mtls.enabledBackend), or select the proxies in a MeshIdentity";

fn place(in_plain_text: usize, selected: usize) -> String {
    if in_plain_text == selected { String::new() } else { format!("on {in_plain_text} of {selected} proxies, ") }
}

/// Whether every item depends on the caller, so that the policy does nothing where callers are unknown. For kinds whose
/// `from` selects callers.
pub(super) fn decide(policy: &Policy) -> bool {
    let Body { to, from, rules, default, .. } = &policy.body;
    selects_callers(policy)
        && to.is_empty()
        && default.is_none()
        && from.iter().all(|item| tags_of(&item.target).is_none_or(|tags| !tags.is_empty()))
        && rules.iter().all(|rule| !rule.matches.is_empty())
}

/// Items that depend on the caller, of a policy that also applies where callers are unknown.
pub(super) fn ignored_in_plain_text(policy: &Policy, in_plain_text: usize, selected: usize) -> Vec<Reason> {
    if in_plain_text == 0 || !selects_callers(policy) {
        return Vec::new();
    }
    let Body { from, rules, .. } = &policy.body;
    let tagged = from.iter().enumerate().filter(|(_, item)| rules.is_empty() && is_by_tags(&item.target));
    let matched = rules.iter().enumerate().filter(|(_, rule)| !rule.matches.is_empty());
    let paths = tagged.map(|(n, _)| format!("spec.from[{n}]")).chain(matched.map(|(n, _)| format!("spec.rules[{n}]")));
    let text = format!(
        "{}inbounds accept plain text, so callers are unknown and the item matches none of them: {MUTUAL_TLS}",
        place(in_plain_text, selected)
    );
    paths.map(|path| Reason::new(Why::NoMutualTls, text.clone()).at(path)).collect()
}

fn selects_callers(policy: &Policy) -> bool {
    policy.kind.policy.is_some_and(|facts| facts.from && !facts.from_as_rules)
}

fn is_by_tags(target: &TargetRef) -> bool {
    tags_of(target).is_some_and(|tags| !tags.is_empty())
}

/// Dataplanes with a certificate of a MeshIdentity, now or when the rollout reaches them.
#[derive(Default)]
pub(super) struct CallersWithoutTags {
    callers: Vec<CallerWithoutTags>,
    /// Places in `callers` by key of a tag.
    by_key: BTreeMap<String, Vec<usize>>,
}

struct CallerWithoutTags {
    dataplane: Arc<str>,
    tags: BTreeSet<(String, String)>,
    spiffe_id: String,
    /// KRI of the MeshIdentity.
    identity: String,
}

impl CallersWithoutTags {
    /// One for each distinct set of tags.
    pub(super) fn of(context: PolicyStatusContext<'_>) -> Self {
        let mut all = Self::default();
        // MeshIdentities issue only in meshes whose destinations are MeshServices.
        if context.identities.is_empty() || context.resolution != NameResolution::Objects {
            return all;
        }
        let mut seen = BTreeSet::new();
        for proxy in context.proxies.values() {
            let Some(identity) = issuing(context.identities, proxy) else { continue };
            let Some(spiffe_id) = identity.id_of(proxy) else { continue };
            let kri = Kri::of(&mesh_identity::KIND, &identity.mesh, &identity.name, &identity.labels);
            let tags = proxy.dataplane.tag_sets().flatten();
            let tags: BTreeSet<(String, String)> = tags.map(|(key, value)| (key.clone(), value.clone())).collect();
            if !seen.insert(tags.clone()) {
                continue;
            }
            for key in tags.iter().map(|(key, _)| key).collect::<BTreeSet<_>>() {
                all.by_key.entry(key.clone()).or_default().push(all.callers.len());
            }
            let identity = kri.map(|kri| kri.to_string()).unwrap_or_default();
            all.callers.push(CallerWithoutTags { dataplane: proxy.name.clone(), tags, spiffe_id, identity });
        }
        all
    }

    /// One for each item of `from` with tags that such a caller has.
    pub(super) fn reasons(&self, policy: &Policy) -> Vec<Reason> {
        if self.callers.is_empty() || !selects_callers(policy) {
            return Vec::new();
        }
        let items = policy.body.from.iter().enumerate();
        let reason = |(n, caller): (usize, &CallerWithoutTags)| {
            let CallerWithoutTags { dataplane, spiffe_id, identity, .. } = caller;
            let text = format!(
                "Dataplane {dataplane} gets {spiffe_id} and no tags, so the item does not match it: convert it to rules \
                 (kodiak migrate identity convert)"
            );
            let by = BTreeSet::from([identity.clone()]);
            Reason::new(Why::CallersWithoutTags, text).at(format!("spec.from[{n}]")).by(by)
        };
        items.filter_map(|(n, item)| Some((n, self.first(&tags_of(&item.target)?)?))).map(reason).collect()
    }

    /// First caller with all of these tags. Without tags, an item matches all certificates.
    fn first(&self, wanted: &[(&str, &str)]) -> Option<&CallerWithoutTags> {
        let (key, _) = wanted.first()?;
        let has = |caller: &CallerWithoutTags, key: &str, value: &str| {
            caller.tags.iter().any(|(own, found)| own == key && (value == "*" || found == value))
        };
        let candidates = self.by_key.get(*key)?.iter().map(|place| &self.callers[*place]);
        candidates.into_iter().find(|caller| wanted.iter().all(|(key, value)| has(caller, key, value)))
    }
}
