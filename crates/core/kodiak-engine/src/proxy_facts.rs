//! Facts about a proxy that its policies put into its configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_model::{Kri, kinds::workload, labels, policy::Conf, tags};
use kodiak_policies::target::{ProxyFact, ProxyFacts};
use kodiak_rules::Proxy;
use kodiak_xds::node::NodeMetadata;

/// The facts that are needed, as far as they exist.
pub(crate) fn of(
    needed: &BTreeSet<ProxyFact>,
    mesh: &str,
    name: &str,
    proxy: &Proxy,
    metadata: &NodeMetadata,
    zone: &str,
) -> ProxyFacts {
    let value = |fact: &ProxyFact| {
        let value = match fact {
            ProxyFact::Service => service(proxy)?,
            ProxyFact::Workload => workload(proxy, mesh, zone)?,
            ProxyFact::Zone => Some(zone.to_owned()).filter(|zone| !zone.is_empty())?,
            ProxyFact::AccessLogPipe => metadata.access_log_pipe(name, mesh)?,
        };
        Some((*fact, Arc::from(value)))
    };
    needed.iter().filter_map(value).collect()
}

/// Facts that confs need.
pub(crate) fn needed<'a>(confs: impl Iterator<Item = (&'static str, &'a Conf)>) -> BTreeSet<ProxyFact> {
    let hooks = confs.filter_map(|(kind, conf)| Some((kodiak_policies::find(kind)?, conf)));
    hooks.flat_map(|(hook, conf)| hook.proxy_facts(conf)).collect()
}

/// Those of the facts that confs need. Resources are built once for each set of facts, so they should have no others.
pub(crate) fn for_confs<'a>(
    all: &ProxyFacts,
    confs: impl Iterator<Item = (&'static str, &'a Conf)>,
) -> Arc<ProxyFacts> {
    if all.is_empty() {
        return Arc::default();
    }
    let needed = needed(confs);
    let facts = all.iter().filter(|(fact, _)| needed.contains(fact)).map(|(fact, value)| (*fact, value.clone()));
    Arc::new(facts.collect::<BTreeMap<_, _>>())
}

/// As in the bootstrap of the proxy: its first service; in meshes without tags, its workload.
fn service(proxy: &Proxy) -> Option<String> {
    let service = proxy.dataplane.tag_sets().filter_map(|tags| tags.get(tags::SERVICE)).min();
    service.or(proxy.labels.get(labels::WORKLOAD)).cloned()
}

fn workload(proxy: &Proxy, mesh: &str, zone: &str) -> Option<String> {
    let label = |key: &str| proxy.labels.get(key).filter(|value| !value.is_empty()).cloned();
    let kri = Kri {
        short: workload::KIND.short?,
        mesh: mesh.to_owned(),
        zone: zone.to_owned(),
        namespace: label(labels::NAMESPACE).unwrap_or_default(),
        name: label(labels::WORKLOAD)?,
        section: String::new(),
    };
    Some(kri.to_string())
}
