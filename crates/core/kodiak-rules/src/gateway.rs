//! Builtin gateways: the listeners that a MeshGateway assigns to a proxy.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::{
    Labels,
    kinds::mesh_gateway::{self, MeshGateway},
};

use crate::{Meta, Origin, Proxy, tags::Tags};

/// A listener of a gateway, for one hostname.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    pub port: u32,
    /// `*` for all.
    pub hostname: String,
}

/// The parts of a MeshGateway that matching needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Gateway {
    pub mesh: Arc<str>,
    pub name: Arc<str>,
    pub labels: Arc<Labels>,
    pub spec: Arc<MeshGateway>,
}

impl Gateway {
    pub fn meta(&self) -> Meta<'_> {
        Meta { mesh: &self.mesh, name: &self.name, labels: &self.labels }
    }

    /// Listeners of a proxy with these tags, without duplicates, whose tags `wanted` accepts.
    ///
    /// The tags of a listener override those of the gateway, which override those of the proxy.
    pub(crate) fn listeners(
        &self,
        own: &BTreeMap<String, String>,
        wanted: impl Fn(&Tags<'_>) -> bool,
    ) -> Vec<Listener> {
        let all = self.spec.listeners().iter();
        let wanted = all.filter(|listener| wanted(&Tags(&[&listener.tags, &self.spec.tags, own])));
        let mut found: Vec<Listener> = wanted.map(Listener::of).collect();
        found.sort();
        found.dedup();
        found
    }
}

impl Listener {
    fn of(listener: &mesh_gateway::Listener) -> Self {
        Self { port: listener.port, hostname: listener.hostname().to_owned() }
    }
}

/// The MeshGateway of a proxy: the one whose selector matches most tags. Exact values count before `*`, and among
/// equals the first name wins.
pub fn of<'a>(proxy: &Proxy, gateways: impl IntoIterator<Item = &'a Arc<Gateway>>) -> Option<&'a Arc<Gateway>> {
    let tags = &proxy.dataplane.gateway().filter(|_| proxy.dataplane.is_builtin_gateway())?.tags;
    let own = gateways.into_iter().filter(|gateway| gateway.mesh == proxy.mesh && in_zone(gateway, &proxy.meta()));
    let ranked = own.filter_map(|gateway| {
        let selectors = gateway.spec.selectors.iter().map(|selector| &selector.tags);
        let fitting = selectors.filter(|selector| Tags(&[tags]).have_all(selector));
        Some((fitting.map(rank).max()?, gateway))
    });
    ranked.max_by(|(rank, a), (other, b)| rank.cmp(other).then_with(|| b.name.cmp(&a.name))).map(|(_, gateway)| gateway)
}

/// A gateway from a zone is for proxies of that zone.
fn in_zone(gateway: &Gateway, proxy: &Meta<'_>) -> bool {
    let gateway = gateway.meta();
    gateway.origin() != Origin::Zone
        || proxy.zone().is_none_or(|zone| gateway.zone().is_none_or(|made_in| made_in == zone))
}

/// Number of exact tags, and of `*`.
fn rank(selector: &BTreeMap<String, String>) -> (usize, usize) {
    let any = selector.values().filter(|value| *value == "*").count();
    (selector.len() - any, any)
}
