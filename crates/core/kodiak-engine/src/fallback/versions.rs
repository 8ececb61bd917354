//! The versions of the resources of one proxy.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kodiak_policies::mesh_proxy_patch::ProxyPatches;
use kodiak_xds::{Built, names};
use kodiak_xds_stream::{ResourceSet, TypeUrl};

use super::{ResourceId, Versions, id_of, permissions};
use crate::{
    cache::Group,
    patched::{self, Origin, Version},
};

/// From the current state of a proxy, and what it was sent last.
pub(crate) struct Available<'a> {
    /// Resources before modifications. Empty if there are none.
    generated: BTreeMap<ResourceId, (Origin, &'a Built)>,
    modifications: Option<Modifications<'a>>,
    published: Option<&'a ResourceSet>,
    /// Inbound listeners of the current state.
    inbounds: BTreeMap<Arc<str>, &'a Built>,
}

/// Modifications with which a configuration was published, if there were any.
#[derive(Clone)]
pub(crate) struct ModificationsInForce(pub(crate) Option<Arc<ProxyPatches>>);

struct Modifications<'a> {
    current: &'a ProxyPatches,
    /// Of the last configuration without faults, if they are others.
    last: Option<&'a ModificationsInForce>,
}

impl<'a> Available<'a> {
    /// `current` has the resources with modifications, and `generated` those before.
    pub(crate) fn new(
        current: impl IntoIterator<Item = &'a Built>,
        generated: impl IntoIterator<Item = &'a (Origin, Group)>,
        patches: Option<&'a Arc<ProxyPatches>>,
        last: Option<&'a ModificationsInForce>,
        published: Option<&'a ResourceSet>,
    ) -> Self {
        let generated = generated.into_iter().flat_map(|(origin, group)| group.iter().map(|built| (*origin, built)));
        let mut of_name = BTreeMap::new();
        // Of several resources with one name, the first.
        for (origin, built) in generated {
            of_name.entry(id_of(built)).or_insert((origin, built));
        }
        let is_inbound = |built: &&Built| built.type_url == TypeUrl::Listener && is_inbound(&built.encoded.name);
        let inbounds = current.into_iter().filter(is_inbound).map(|built| (built.encoded.name.clone(), built));
        let mut inbounds: BTreeMap<_, _> = inbounds.collect();
        inbounds.extend(
            of_name
                .values()
                .map(|(_, built)| *built)
                .filter(is_inbound)
                .map(|built| (built.encoded.name.clone(), built)),
        );
        Self {
            generated: of_name,
            modifications: patches.map(|current| Modifications {
                current,
                last: last.filter(|ModificationsInForce(last)| last.as_ref() != Some(current)),
            }),
            published,
            inbounds,
        }
    }

    fn current(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Version {
        match &self.modifications {
            Some(Modifications { current, .. }) => {
                patched::version(current, excluded, self.generated.get(id).copied(), id)
            }
            None => Version::Absent,
        }
    }
}

impl Versions for Available<'_> {
    fn with_last_modifications(&self, id: &ResourceId) -> Option<Built> {
        let generated = self.generated.get(id).copied();
        let ModificationsInForce(last) = self.modifications.as_ref()?.last?;
        match last {
            Some(last) => patched::version(last, &BTreeSet::new(), generated, id).present(),
            None => generated.map(|(_, built)| built.clone()),
        }
    }

    fn without(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Built> {
        self.current(id, excluded).present()
    }

    fn remover(&self, id: &ResourceId, excluded: &BTreeSet<Arc<str>>) -> Option<Arc<str>> {
        match self.current(id, excluded) {
            Version::Removed(at) => Some(at),
            Version::Present(_) | Version::Absent => None,
        }
    }

    fn published(&self, (type_url, name): &ResourceId) -> Option<Built> {
        patched::read(*type_url, self.published?.of(*type_url).get(name)?)
    }

    /// An inbound listener needs the permissions and the TLS settings of the current state.
    fn may_stay(&self, (type_url, name): &ResourceId, published: &Built) -> bool {
        if *type_url != TypeUrl::Listener || !is_inbound(name) {
            return true;
        }
        let current = self.inbounds.get(name).and_then(|built| patched::listener(&built.encoded));
        let published = patched::listener(&published.encoded);
        current.zip(published).is_some_and(|(current, published)| permissions::are_equal(&current, &published))
    }
}

/// All but outbound listeners: others of the proxy itself may admit callers, too.
fn is_inbound(listener: &str) -> bool {
    !names::is_outbound_listener(listener)
}
