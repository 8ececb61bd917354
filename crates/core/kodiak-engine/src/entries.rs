//! Inbound policies of a proxy, and those for the proxy as a whole.

use std::sync::Arc;

use kodiak_model::{InboundTls, policy::Conf};
use kodiak_policies::{Entry, Source};
use kodiak_rules::{Policy, PolicyIndex, Shadow, subset};
use kodiak_xds::input::ByKind;

/// For each inbound of the proxy, entries by kind, in ascending precedence.
pub(crate) fn of(
    policy_index: &PolicyIndex,
    proxy: &str,
    inbounds: usize,
    accept: InboundTls,
    shadow: Shadow,
) -> Vec<Arc<ByKind<Vec<Entry>>>> {
    let mut all = vec![ByKind::new(); inbounds];
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
        if !(facts.from || facts.rules) || (hook.needs_mtls() && accept == InboundTls::Plaintext) {
            continue;
        }
        let matched = policy_index.matched(kind.name, proxy, shadow);
        for (inbound, policies) in &matched.inbounds {
            let entries: Vec<Entry> =
                policies.iter().flat_map(|policy| Entry::of(&kri(policy), &policy.body)).collect();
            if let Some(at) = all.get_mut(*inbound).filter(|_| !entries.is_empty()) {
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

/// With the KRI of the policy that has the highest precedence.
fn whole(policies: &[Arc<Policy>]) -> Option<(Arc<str>, Conf)> {
    Some((kri(policies.last()?), subset::single(policies)?.conf))
}

fn kri(policy: &Policy) -> Arc<str> {
    policy.kri().to_string().into()
}
