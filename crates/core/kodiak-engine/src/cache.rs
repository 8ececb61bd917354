//! Resources by their inputs: each distinct input is built and encoded once.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use kodiak_policies::target::Collector;
use kodiak_xds::{
    Built,
    input::{
        Admin, Assignment, DirectAccessCluster, Dns, ExternalCluster, Inbound, OutboundCluster, OutboundListener,
        Passthrough, Probes,
    },
};
use kodiak_xds_stream::Version;

use crate::patched::PatchedGroups;

/// Resources built from one input.
pub(crate) type Group = Arc<[Built]>;

#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) inbounds: InputCache<Inbound>,
    pub(crate) clusters: InputCache<OutboundCluster>,
    pub(crate) listeners: InputCache<OutboundListener>,
    pub(crate) assignments: InputCache<Assignment>,
    pub(crate) external: InputCache<ExternalCluster>,
    pub(crate) direct_access: InputCache<DirectAccessCluster>,
    pub(crate) collectors: InputCache<Collector>,
    pub(crate) passthrough: InputCache<Passthrough>,
    pub(crate) admin: InputCache<Admin>,
    pub(crate) probes: InputCache<Probes>,
    pub(crate) dns: InputCache<Dns>,
    pub(crate) secrets: InputCache<SecretInput>,
    pub(crate) patched: PatchedGroups,
}

/// Identifies a secret without its content: private keys are never cache keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum SecretInput {
    Identity {
        mesh: Arc<str>,
        proxy: Arc<str>,
        version: Version,
    },
    /// CAs of backends.
    MeshCa {
        mesh: Arc<str>,
        roots: Arc<str>,
    },
    /// CAs by trust domain.
    TrustBundle {
        domains: Arc<[(Arc<str>, Arc<str>)]>,
    },
}

impl Cache {
    /// Number of resources encoded so far.
    pub(crate) fn encoded(&self) -> u64 {
        let Self {
            inbounds,
            clusters,
            listeners,
            assignments,
            external,
            direct_access,
            collectors,
            passthrough,
            admin,
            probes,
            dns,
            secrets,
            patched,
        } = self;
        inbounds.encoded
            + clusters.encoded
            + listeners.encoded
            + assignments.encoded
            + external.encoded
            + direct_access.encoded
            + collectors.encoded
            + passthrough.encoded
            + admin.encoded
            + probes.encoded
            + dns.encoded
            + secrets.encoded
            + patched.encoded
    }

    /// Evicts unused resources, at times.
    pub(crate) fn sweep(&mut self) {
        let Self {
            inbounds,
            clusters,
            listeners,
            assignments,
            external,
            direct_access,
            collectors,
            passthrough,
            admin,
            probes,
            dns,
            secrets,
            patched,
        } = self;
        patched.sweep();
        inbounds.sweep();
        clusters.sweep();
        listeners.sweep();
        assignments.sweep();
        external.sweep();
        direct_access.sweep();
        collectors.sweep();
        passthrough.sweep();
        admin.sweep();
        probes.sweep();
        dns.sweep();
        secrets.sweep();
    }
}

pub(crate) struct InputCache<K> {
    groups: HashMap<K, Group>,
    encoded: u64,
    /// Number of entries after the last sweep.
    live: usize,
}

impl<K> Default for InputCache<K> {
    fn default() -> Self {
        Self { groups: HashMap::new(), encoded: 0, live: 0 }
    }
}

impl<K: Clone + Eq + Hash> InputCache<K> {
    pub(crate) fn get(&mut self, input: &K, make: impl FnOnce(&K) -> Vec<Built>) -> Group {
        if let Some(known) = self.groups.get(input) {
            return known.clone();
        }
        let group: Group = make(input).into();
        self.encoded += group.len() as u64;
        self.groups.insert(input.clone(), group.clone());
        group
    }

    /// Does nothing until the number of entries has doubled, so that the cost per added entry is constant.
    fn sweep(&mut self) {
        const FEW: usize = 64;
        if self.groups.len() > 2 * self.live + FEW {
            self.groups.retain(|_, group| Arc::strong_count(group) > 1);
            self.live = self.groups.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_evicts_unused_groups_and_keeps_used_ones() {
        let mut cache = InputCache::<u32>::default();
        let kept = cache.get(&0, |_| Vec::new());
        for input in 1..200 {
            cache.get(&input, |_| Vec::new());
            cache.sweep();
        }
        assert!(cache.groups.len() < 80, "{}", cache.groups.len());
        assert!(Arc::ptr_eq(&kept, &cache.get(&0, |_| unreachable!("the group is in use"))));
    }
}
