//! Builtin gateways: the listeners that a MeshGateway gives to a proxy.

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

/// A MeshGateway, as far as policies look at it.
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

    /// The listeners that a proxy with these tags has from it, each once, where `wanted` says so of its tags.
    ///
    /// The tags of a listener are stronger than those of the gateway, and those are stronger than those of the proxy.
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

/// The one MeshGateway of a proxy: whose selector has the most tags that fit it. Exact values count before `*`, and
/// among equals the first in the alphabet wins.
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

/// What a zone made is for its own proxies.
fn in_zone(gateway: &Gateway, proxy: &Meta<'_>) -> bool {
    let gateway = gateway.meta();
    gateway.origin() != Origin::Zone
        || proxy.zone().is_none_or(|zone| gateway.zone().is_none_or(|made_in| made_in == zone))
}

/// How many tags, exact ones and any.
fn rank(selector: &BTreeMap<String, String>) -> (usize, usize) {
    let any = selector.values().filter(|value| *value == "*").count();
    (selector.len() - any, any)
}
