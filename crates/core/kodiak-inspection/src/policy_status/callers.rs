//! Callers that a policy does not match: there are no certificates, or they have no tags.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_identity::{accepts, issuing};
use kodiak_model::{InboundTls, Kri, kinds::mesh_identity};
use kodiak_rollout::Rollout;
use kodiak_rules::{Policy, Proxy, outbound::NameResolution};

use super::{PolicyStatusContext, Reason, Why, followed::tags_of};

/// Whether inbounds of a proxy request certificates. A mode does not change that.
pub(super) fn are_known(rollout: &Rollout, server: &Proxy) -> bool {
    accepts(rollout, server, None) != InboundTls::Plaintext
}

/// For a policy about callers by their certificates, of `selected` proxies `in_plain_text`.
pub(super) fn unknown(in_plain_text: usize, selected: usize) -> Reason {
    let place =
        if in_plain_text == selected { String::new() } else { format!("on {in_plain_text} of {selected} proxies, ") };
    let text = format!(
        "{place}inbounds accept plain text, so it is not enforced and every call is allowed: enable mutual TLS in the Mesh \
         (mtls.enabledBackend), or select the proxies in a MeshIdentity"
    );
    Reason::new(Why::NoMutualTls, text)
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
        let selects_callers = policy.kind.policy.is_some_and(|facts| facts.from && !facts.from_as_rules);
        if self.callers.is_empty() || !selects_callers {
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
