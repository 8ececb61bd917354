//! Resources by what they are made from: each is built and encoded once.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use kodiak_xds::{
    Built,
    input::{Admin, Assignment, Dns, ExternalCluster, Inbound, OutboundCluster, OutboundListener, Passthrough, Probes},
};
use kodiak_xds_stream::Version;

/// Resources that come from one input.
pub(crate) type Group = Arc<[Built]>;

#[derive(Default)]
pub(crate) struct Cache {
    pub(crate) inbounds: Memo<Inbound>,
    pub(crate) clusters: Memo<OutboundCluster>,
    pub(crate) listeners: Memo<OutboundListener>,
    pub(crate) assignments: Memo<Assignment>,
    pub(crate) external: Memo<ExternalCluster>,
    pub(crate) passthrough: Memo<Passthrough>,
    pub(crate) admin: Memo<Admin>,
    pub(crate) probes: Memo<Probes>,
    pub(crate) dns: Memo<Dns>,
    pub(crate) secrets: Memo<SecretInput>,
}

/// What a secret is known by. Its content never is a key.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum SecretInput {
    Identity { mesh: Arc<str>, proxy: Arc<str>, version: Version },
    Authority { mesh: Arc<str>, roots: Arc<str> },
}

impl Cache {
    /// How many resources were encoded since the beginning.
    pub(crate) fn encoded(&self) -> u64 {
        let Self { inbounds, clusters, listeners, assignments, external, passthrough, admin, probes, dns, secrets } =
            self;
        inbounds.encoded
            + clusters.encoded
            + listeners.encoded
            + assignments.encoded
            + external.encoded
            + passthrough.encoded
            + admin.encoded
            + probes.encoded
            + dns.encoded
            + secrets.encoded
    }

    /// Forgets what nobody uses, now and then.
    pub(crate) fn sweep(&mut self) {
        let Self { inbounds, clusters, listeners, assignments, external, passthrough, admin, probes, dns, secrets } =
            self;
        inbounds.sweep();
        clusters.sweep();
        listeners.sweep();
        assignments.sweep();
        external.sweep();
        passthrough.sweep();
        admin.sweep();
        probes.sweep();
        dns.sweep();
        secrets.sweep();
    }
}

pub(crate) struct Memo<K> {
    known: HashMap<K, Group>,
    encoded: u64,
    /// How many there were after the last sweep.
    live: usize,
}

impl<K> Default for Memo<K> {
    fn default() -> Self {
        Self { known: HashMap::new(), encoded: 0, live: 0 }
    }
}

impl<K: Clone + Eq + Hash> Memo<K> {
    pub(crate) fn get(&mut self, input: &K, make: impl FnOnce(&K) -> Vec<Built>) -> Group {
        if let Some(known) = self.known.get(input) {
            return known.clone();
        }
        let group: Group = make(input).into();
        self.encoded += group.len() as u64;
        self.known.insert(input.clone(), group.clone());
        group
    }

    /// Costs nothing until as much was added as there is, so that it costs a constant for each addition.
    fn sweep(&mut self) {
        const FEW: usize = 64;
        if self.known.len() > 2 * self.live + FEW {
            self.known.retain(|_, group| Arc::strong_count(group) > 1);
            self.live = self.known.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_used_is_forgotten_and_what_is_used_is_not() {
        let mut memo = Memo::<u32>::default();
        let kept = memo.get(&0, |_| Vec::new());
        for input in 1..200 {
            memo.get(&input, |_| Vec::new());
            memo.sweep();
        }
        assert!(memo.known.len() < 80, "{}", memo.known.len());
        assert!(Arc::ptr_eq(&kept, &memo.get(&0, |_| unreachable!("it is in use"))));
    }
}
