//! Modifications of the MeshProxyPatches of a mesh, parsed once for each list of policies.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_policies::mesh_proxy_patch::ProxyPatches;
use kodiak_rules::Policy;

/// By the names of policies, in ascending precedence. Emptied when one of them changes.
#[derive(Default)]
pub(super) struct PatchLists(BTreeMap<Vec<Arc<str>>, Option<Arc<ProxyPatches>>>);

impl PatchLists {
    /// `None` if no policy selects the proxy.
    pub(super) fn of(&mut self, policies: &[Arc<Policy>]) -> Option<Arc<ProxyPatches>> {
        if policies.is_empty() {
            return None;
        }
        let names = policies.iter().map(|policy| policy.name.clone()).collect();
        let parse = || {
            let confs = policies.iter().filter_map(|policy| Some((&*policy.name, policy.body.default.as_ref()?)));
            ProxyPatches::of(confs).map(Arc::new)
        };
        self.0.entry(names).or_insert_with(parse).clone()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
