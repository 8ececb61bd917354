//! DNS records of all destinations of a mesh, also of those that a proxy may not call.
//!
//! Proxies that lose destinations still resolve their names: the proxy itself answers such a call, and says why. All of
//! them have the same table.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_xds::input::DnsRecord;

use crate::{
    plan::{self, Sources},
    target::{Target, Touched},
};

#[derive(Default)]
pub(crate) struct Hostnames {
    by_target: BTreeMap<Target, Vec<DnsRecord>>,
    table: Arc<[DnsRecord]>,
}

impl Hostnames {
    pub(crate) fn table(&self) -> &Arc<[DnsRecord]> {
        &self.table
    }

    /// Computes the records of touched destinations again. Returns whether the table changed.
    pub(crate) fn update(&mut self, touched: Touched<'_>, from: Sources<'_>) -> bool {
        let changed = match touched {
            Touched::All => {
                let services = from.services.names().cloned().map(Target::Service);
                let all = services.chain(from.objects.names().cloned().map(Target::Object));
                let records = all.map(|target| (target.clone(), plan::records(from, &target)));
                let all: BTreeMap<_, _> = records.filter(|(_, records)| !records.is_empty()).collect();
                let changed = all != self.by_target;
                self.by_target = all;
                changed
            }
            Touched::Some(targets) => {
                let mut changed = false;
                for target in targets {
                    let records = plan::records(from, target);
                    if self.by_target.get(target).map_or(&[][..], Vec::as_slice) == records {
                        continue;
                    }
                    changed = true;
                    if records.is_empty() {
                        self.by_target.remove(target);
                    } else {
                        self.by_target.insert(target.clone(), records);
                    }
                }
                changed
            }
        };
        if changed {
            self.table = table(self.by_target.values().flatten().cloned().collect());
        }
        changed
    }
}

/// Sorted. A hostname of two destinations resolves to one of them, always the same.
pub(crate) fn table(mut records: Vec<DnsRecord>) -> Arc<[DnsRecord]> {
    records.sort();
    records.dedup_by(|a, b| a.name == b.name);
    records.into()
}
