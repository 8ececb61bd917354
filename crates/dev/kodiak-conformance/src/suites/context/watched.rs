//! An engine with connected proxies, and the proxies that it updates.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_engine::{Engine, EngineChange, EngineSettings, offline::Placeholders};
use kodiak_model::ProxyKey;
use kodiak_services::{
    service_addresses::{AddressAllocator, Ranges},
    tag_services::TagServices,
    vips::Vips,
};
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

const TIME: Timestamp = Timestamp::UNIX_EPOCH;
const ZONE: &str = "zone-1";

/// Resources of each proxy.
pub(super) type Sets = BTreeMap<ProxyKey, ResourceSet>;
/// Virtual IPs of each mesh.
pub(super) type Addresses = BTreeMap<Arc<str>, Arc<Vips>>;

pub(super) struct Watched {
    engine: Engine,
    tags: BTreeMap<Arc<str>, TagServices>,
    addresses: Addresses,
}

/// Result of a change.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    pub(super) proxies: BTreeSet<ProxyKey>,
    /// Number of encoded resources.
    pub(super) encoded: u64,
}

impl Watched {
    /// With these proxies, which can reach all services of their mesh.
    pub(super) fn connected(
        addresses: Addresses,
        changes: impl IntoIterator<Item = EngineChange>,
        proxies: &[ProxyKey],
    ) -> anyhow::Result<Self> {
        let settings = EngineSettings { zone: ZONE.into(), ..EngineSettings::default() };
        let known =
            addresses.iter().map(|(mesh, vips)| EngineChange::Vips { mesh: mesh.clone(), vips: Some(vips.clone()) });
        let known: Vec<EngineChange> = known.chain(changes).collect();
        let mut watched = Self { engine: Engine::new(settings), tags: BTreeMap::new(), addresses };
        watched.change(known)?;
        let metadata = Arc::new(redirected());
        watched.change(
            proxies.iter().map(|key| EngineChange::Connected { key: key.clone(), metadata: metadata.clone() }),
        )?;
        Ok(watched)
    }

    /// Services without a virtual IP get one, as the control plane would assign it.
    pub(super) fn change(&mut self, changes: impl IntoIterator<Item = EngineChange>) -> anyhow::Result<Pushed> {
        let mut pushed = Pushed::default();
        let mut changes: Vec<EngineChange> = changes.into_iter().collect();
        let mut touched = BTreeSet::new();
        for change in &changes {
            if let EngineChange::Dataplane { key, dataplane } = change {
                let tags = self.tags.entry(key.mesh.clone()).or_default();
                if tags.set(&key.name, dataplane.as_ref().map(|proxy| &*proxy.dataplane)) {
                    touched.insert(key.mesh.clone());
                }
            }
        }
        while !changes.is_empty() {
            let outcome = self.engine.apply(std::mem::take(&mut changes), &Placeholders, TIME);
            pushed.encoded += outcome.stats.encoded;
            pushed.proxies.extend(outcome.proxies.into_iter().map(|updated| updated.key));
            for mesh in std::mem::take(&mut touched) {
                let vips = self.addresses.entry(mesh.clone()).or_default();
                let mut allocator = AddressAllocator::new(Ranges::default());
                allocator.set_vips(&mesh, None, Some(vips));
                let assigned = allocator.assign(&mesh, vips, self.tags[&mesh].names(), TIME, SignedDuration::MAX);
                anyhow::ensure!(assigned.without_address.is_empty(), "no virtual address is left");
                *vips = Arc::new(assigned.vips);
                changes.push(EngineChange::Vips { mesh, vips: Some(vips.clone()) });
            }
        }
        Ok(pushed)
    }

    pub(super) fn sets(&self, proxies: &[ProxyKey]) -> Sets {
        let set = |proxy: &ProxyKey| Some((proxy.clone(), self.engine.snapshot(proxy)?.resources.clone()));
        proxies.iter().filter_map(set).collect()
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }
}

/// Whether any resource that exists before and after differs, except endpoints.
pub(super) fn is_remade(before: &ResourceSet, after: &ResourceSet) -> bool {
    let types = TypeUrl::ALL.into_iter().filter(|type_url| *type_url != TypeUrl::Endpoint);
    types.into_iter().any(|type_url| {
        let mut kept = before.of(type_url).iter().filter_map(|(name, one)| Some((one, after.of(type_url).get(name)?)));
        kept.any(|(one, other)| one != other)
    })
}

fn redirected() -> NodeMetadata {
    let redirect = |port| Redirect { enabled: true, port: Some(port) };
    let transparent_proxy =
        TransparentProxy { inbound: redirect(15006), outbound: redirect(15001), ..TransparentProxy::default() };
    NodeMetadata { transparent_proxy: Some(transparent_proxy), ..NodeMetadata::default() }
}
