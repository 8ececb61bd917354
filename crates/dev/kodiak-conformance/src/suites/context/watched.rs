//! An engine, and who it tells of what.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use jiff::{SignedDuration, Timestamp};
use kodiak_engine::{Change, Engine, Settings, offline::Placeholders};
use kodiak_model::ProxyKey;
use kodiak_views::vips::Vips;
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

const TIME: Timestamp = Timestamp::UNIX_EPOCH;
const ZONE: &str = "zone-1";

/// What each proxy has.
pub(super) type Sets = BTreeMap<ProxyKey, ResourceSet>;
/// The virtual addresses of each mesh.
pub(super) type Addresses = BTreeMap<Arc<str>, Arc<Vips>>;

pub(super) struct Watched {
    engine: Engine,
    addresses: Addresses,
}

/// What a change led to.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) proxies: BTreeSet<ProxyKey>,
    /// How many resources were made.
    pub(super) encoded: u64,
}

impl Watched {
    /// With these proxies, which see all services of their mesh.
    pub(super) fn connected(
        addresses: Addresses,
        changes: impl IntoIterator<Item = Change>,
        proxies: &[ProxyKey],
    ) -> anyhow::Result<Self> {
        let settings = Settings { zone: ZONE.into(), ..Settings::default() };
        let known = addresses.iter().map(|(mesh, vips)| Change::Vips { mesh: mesh.clone(), vips: Some(vips.clone()) });
        let known: Vec<Change> = known.chain(changes).collect();
        let mut watched = Self { engine: Engine::new(settings), addresses };
        watched.change(known)?;
        let metadata = Arc::new(redirected());
        watched.change(proxies.iter().map(|key| Change::Connected { key: key.clone(), metadata: metadata.clone() }))?;
        Ok(watched)
    }

    /// Services without an address get one, as the control plane would give it.
    pub(super) fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> anyhow::Result<Told> {
        let mut told = Told::default();
        let mut changes: Vec<Change> = changes.into_iter().collect();
        while !changes.is_empty() {
            let outcome = self.engine.apply(std::mem::take(&mut changes), &Placeholders, TIME);
            told.encoded += outcome.stats.encoded;
            told.proxies.extend(outcome.proxies.into_iter().map(|updated| updated.key));
            for (mesh, services) in outcome.services {
                let vips = self.addresses.entry(mesh.clone()).or_default();
                let assigned = vips.assign(&services, TIME, SignedDuration::MAX);
                *vips = Arc::new(assigned.map_err(|error| anyhow::anyhow!("{error:?}"))?);
                changes.push(Change::Vips { mesh, vips: Some(vips.clone()) });
            }
        }
        Ok(told)
    }

    pub(super) fn sets(&self, proxies: &[ProxyKey]) -> Sets {
        let set = |proxy: &ProxyKey| Some((proxy.clone(), self.engine.snapshot(proxy)?.resources.clone()));
        proxies.iter().filter_map(set).collect()
    }

    pub(super) fn addresses(&self) -> Addresses {
        self.addresses.clone()
    }
}

/// Whether anything that is there before and after is another now, who serves it apart.
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
