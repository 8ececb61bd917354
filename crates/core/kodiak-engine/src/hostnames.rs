//! Hostnames of all destinations of a mesh, also of those that a proxy may not call.
//!
//! A proxy that loses destinations is sent the names of those that it has, and the domains of all: its DNS server asks the
//! control plane for any other name in these domains. So a new service costs such a proxy nothing, and it still answers
//! calls to what it lost, and says why. A name that does not exist stays one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_xds::{hostnames::HostnameIndex, input::DnsRecord};

use crate::{
    plan::{self, Sources},
    target::{Target, Touched},
};

#[derive(Default)]
pub(crate) struct Hostnames {
    by_target: BTreeMap<Target, Vec<DnsRecord>>,
    index: HostnameIndex,
    /// Domains right above names, with the number of records in them.
    parents: BTreeMap<Arc<str>, usize>,
    domains: Arc<[Arc<str>]>,
}

impl Hostnames {
    pub(crate) fn index(&self) -> &HostnameIndex {
        &self.index
    }

    /// Domains that have all names. Names without a dot are in the domain "".
    pub(crate) fn domains(&self) -> &Arc<[Arc<str>]> {
        &self.domains
    }

    /// Computes the records of touched destinations again. Returns whether the domains changed.
    pub(crate) fn update(&mut self, touched: Touched<'_>, from: Sources<'_>) -> bool {
        match touched {
            Touched::All => {
                let services = from.services.names().cloned().map(Target::Service);
                let all: BTreeSet<_> = services.chain(from.objects.names().cloned().map(Target::Object)).collect();
                let gone: Vec<_> = self.by_target.keys().filter(|target| !all.contains(target)).cloned().collect();
                for target in gone {
                    self.replace(&target, Vec::new());
                }
                for target in all {
                    self.replace(&target, plan::records(from, &target));
                }
            }
            Touched::Some(targets) => {
                for target in targets {
                    self.replace(target, plan::records(from, target));
                }
            }
        }
        let domains = outermost(&self.parents);
        let changed = *self.domains != *domains;
        if changed {
            self.domains = domains.into();
        }
        changed
    }

    fn replace(&mut self, target: &Target, records: Vec<DnsRecord>) {
        if self.by_target.get(target).map_or(&[][..], Vec::as_slice) == records {
            return;
        }
        for record in self.by_target.remove(target).iter().flatten() {
            self.index.remove(record);
            let parent = parent(&record.name);
            if self.parents.get(parent).is_some_and(|count| *count > 1) {
                self.parents.entry(parent.into()).and_modify(|count| *count -= 1);
            } else {
                self.parents.remove(parent);
            }
        }
        for record in &records {
            self.index.add(record);
            *self.parents.entry(parent(&record.name).into()).or_default() += 1;
        }
        if !records.is_empty() {
            self.by_target.insert(target.clone(), records);
        }
    }
}

fn parent(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, parent)| parent)
}

/// Domains that are in no other one.
fn outermost(domains: &BTreeMap<Arc<str>, usize>) -> Vec<Arc<str>> {
    let is_inner = |domain: &str| {
        let above = domain.match_indices('.').map(|(dot, _)| &domain[dot + 1..]);
        above.into_iter().any(|above| domains.contains_key(above))
    };
    domains.keys().filter(|domain| !is_inner(domain)).cloned().collect()
}

/// Sorted. A hostname of two destinations resolves to one of them, always the same.
pub(crate) fn table(mut records: Vec<DnsRecord>) -> Arc<[DnsRecord]> {
    records.sort();
    records.dedup_by(|a, b| a.name == b.name);
    records.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_within_others_are_left_out() {
        let parents =
            ["mesh", "ns.svc.80.mesh", "svc.mesh.local", "extsvc.mesh.local", "a.svc.mesh.local", "xmesh", ""];
        let parents = parents.map(|name| (name.into(), 1)).into();
        let outermost: Vec<String> = outermost(&parents).iter().map(ToString::to_string).collect();
        assert_eq!(outermost, ["", "extsvc.mesh.local", "mesh", "svc.mesh.local", "xmesh"]);
    }
}
