//! Inbound policies of a proxy, and those for the proxy as a whole.

use std::sync::Arc;

use kodiak_model::{InboundTls, policy::Conf};
use kodiak_policies::{Entry, Source, passthrough::PassthroughRules};
use kodiak_rules::{Policy, PolicyIndex, Shadow, subset};
use kodiak_xds::input::ByKind;

/// For each inbound of the proxy, entries by kind, in ascending precedence. `accepted` has the connections that each
/// accepts. Policies that configure TLS decided that, and have no entries.
pub(crate) fn of(
    policy_index: &PolicyIndex,
    proxy: &str,
    accepted: &[InboundTls],
    shadow: Shadow,
) -> Vec<Arc<ByKind<Vec<Entry>>>> {
    let mut all = vec![ByKind::new(); accepted.len()];
    for hook in kodiak_policies::in_force() {
        let kind = hook.kind();
        let Some(facts) = kind.policy.as_ref() else { continue };
        if hook.applies_to_all_traffic() {
            let Some((policy, conf)) = whole(&policy_index.matched(kind.name, proxy, shadow).proxy) else { continue };
            let entry = Entry { policy, source: Source::Matches(Vec::new()), conf };
            for at in &mut all {
                at.insert(kind.name, vec![entry.clone()]);
            }
        }
        if !(facts.from || facts.rules) || hook.configures_tls() {
            continue;
        }
        let applies = |accept: &InboundTls| !hook.needs_mtls() || *accept != InboundTls::Plaintext;
        let matched = policy_index.matched(kind.name, proxy, shadow);
        for (inbound, policies) in &matched.inbounds {
            let entries: Vec<Entry> =
                policies.iter().flat_map(|policy| Entry::of(&kri(policy), &policy.body)).collect();
            let applies = !entries.is_empty() && accepted.get(*inbound).is_some_and(applies);
            if let Some(at) = all.get_mut(*inbound).filter(|_| applies) {
                at.insert(kind.name, entries);
            }
        }
    }
    all.into_iter().map(Arc::new).collect()
}

/// Merged conf of a kind without lists for the proxy as a whole. `None` if no policy selects it.
pub(crate) fn of_whole_proxy(
    policy_index: &PolicyIndex,
    kind: &'static str,
    proxy: &str,
    shadow: Shadow,
) -> Option<Conf> {
    whole(&policy_index.matched(kind, proxy, shadow).proxy).map(|(_, conf)| conf)
}

/// Rules for destinations outside the mesh. `None` if no policy has any for the proxy.
pub(crate) fn passthrough(policy_index: &PolicyIndex, proxy: &str, shadow: Shadow) -> Option<PassthroughRules> {
    let whole = kodiak_policies::in_force().iter().filter(|hook| {
        let facts = hook.kind().policy.as_ref();
        facts.is_some_and(|facts| !(facts.to || facts.from || facts.rules))
    });
    whole.into_iter().find_map(|hook| hook.passthrough(&of_whole_proxy(policy_index, hook.kind().name, proxy, shadow)?))
}

/// With the KRI of the policy that has the highest precedence.
fn whole(policies: &[Arc<Policy>]) -> Option<(Arc<str>, Conf)> {
    Some((kri(policies.last()?), subset::single(policies)?.conf))
}

fn kri(policy: &Policy) -> Arc<str> {
    policy.kri().to_string().into()
}
