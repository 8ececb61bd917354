//! Resources by their inputs: each distinct input is built and encoded once.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use kodiak_xds::{
    Built,
    dynamic_config::Document,
    input::{
        Admin, Assignment, CollectorCluster, DirectAccessCluster, DnsListener, DnsTable, DynamicConfig,
        ExternalCluster, Inbound, Metrics, OutboundCluster, OutboundListener, Passthrough, Probes, Validation,
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
    pub(crate) collectors: InputCache<CollectorCluster>,
    pub(crate) passthrough: InputCache<Passthrough>,
    pub(crate) admin: InputCache<Admin>,
    pub(crate) probes: InputCache<Probes>,
    pub(crate) dns: InputCache<DnsListener>,
    /// Long tables, in dynamic configurations of many proxies.
    pub(crate) dns_documents: InputCache<DnsTable, Document>,
    pub(crate) dynamic_config: InputCache<DynamicConfig>,
    pub(crate) metrics: InputCache<Metrics>,
    pub(crate) certificates: InputCache<CertificateInput>,
    pub(crate) validations: InputCache<Validation>,
    pub(crate) patched: PatchedGroups,
}

/// Identifies a certificate without its content: private keys are never cache keys.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct CertificateInput {
    pub(crate) mesh: Arc<str>,
    pub(crate) proxy: Arc<str>,
    pub(crate) version: Version,
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
            dns_documents: _,
            dynamic_config,
            metrics,
            certificates,
            validations,
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
            + dynamic_config.encoded
            + metrics.encoded
            + certificates.encoded
            + validations.encoded
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
            dns_documents,
            dynamic_config,
            metrics,
            certificates,
            validations,
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
        dynamic_config.sweep();
        // After the listeners that have them.
        dns_documents.sweep();
        metrics.sweep();
        certificates.sweep();
        validations.sweep();
    }
}

/// Values by their inputs; resources unless said otherwise.
pub(crate) struct InputCache<K, T: ?Sized = [Built]> {
    values: HashMap<K, Arc<T>>,
    encoded: u64,
    /// Number of entries after the last sweep.
    live: usize,
}

impl<K, T: ?Sized> Default for InputCache<K, T> {
    fn default() -> Self {
        Self { values: HashMap::new(), encoded: 0, live: 0 }
    }
}

impl<K: Clone + Eq + Hash> InputCache<K> {
    pub(crate) fn get(&mut self, input: &K, make: impl FnOnce(&K) -> Vec<Built>) -> Group {
        let mut encoded = 0;
        let group = self.get_shared(input, |input| {
            let group: Group = make(input).into();
            encoded = group.len() as u64;
            group
        });
        self.encoded += encoded;
        group
    }
}

impl<K: Clone + Eq + Hash, T: ?Sized> InputCache<K, T> {
    pub(crate) fn get_shared(&mut self, input: &K, make: impl FnOnce(&K) -> Arc<T>) -> Arc<T> {
        if let Some(known) = self.values.get(input) {
            return known.clone();
        }
        let value = make(input);
        self.values.insert(input.clone(), value.clone());
        value
    }

    /// Does nothing until the number of entries has doubled, so that the cost per added entry is constant.
    fn sweep(&mut self) {
        const FEW: usize = 64;
        if self.values.len() > 2 * self.live + FEW {
            self.values.retain(|_, value| Arc::strong_count(value) > 1);
            self.live = self.values.len();
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
        assert!(cache.values.len() < 80, "{}", cache.values.len());
        assert!(Arc::ptr_eq(&kept, &cache.get(&0, |_| unreachable!("the group is in use"))));
    }
}
