//! Inbound policies of a proxy.

use std::sync::Arc;

use kodiak_model::InboundTls;
use kodiak_policies::Entry;
use kodiak_rules::{PolicyIndex, Shadow};
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
        let facts = hook.kind().policy.as_ref().filter(|facts| facts.from || facts.rules);
        if facts.is_none() || hook.configures_tls() {
            continue;
        }
        let applies = |accept: &InboundTls| !hook.needs_mtls() || *accept != InboundTls::Plaintext;
        let matched = policy_index.matched(hook.kind().name, proxy, shadow);
        for (inbound, policies) in &matched.inbounds {
            let entries: Vec<Entry> =
                policies.iter().flat_map(|policy| Entry::of(&policy.kri().to_string().into(), &policy.body)).collect();
            let applies = !entries.is_empty() && accepted.get(*inbound).is_some_and(applies);
            if let Some(at) = all.get_mut(*inbound).filter(|_| applies) {
                at.insert(hook.kind().name, entries);
            }
        }
    }
    all.into_iter().map(Arc::new).collect()
}
