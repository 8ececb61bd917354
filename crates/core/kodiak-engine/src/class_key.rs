//! Which proxies have the same calls.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{
    kinds::{
        dataplane::{Dataplane, TransparentProxying},
        mesh::MeshServicesMode,
    },
    tags,
};
use kodiak_rules::Proxy;
use kodiak_services::reachable::{self, Wanted};
use kodiak_xds::{
    input::{Shape, Tags},
    node::NodeMetadata,
};

use crate::{
    rules::Lists,
    target::{self, Target},
};

/// Proxies with equal keys have equal calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    pub(crate) reach: Reach,
    /// The policies that are about their calls.
    pub(crate) policies: Lists,
    /// What they have of the tags that these policies look at.
    pub(crate) caller: Tags,
    /// Where their machines keep the authorities that they believe.
    pub(crate) system_ca: Option<Arc<str>>,
}

/// What they see, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Connections are redirected: all that may be reached, at virtual addresses.
    Redirected { shape: Shape, services: Option<Arc<BTreeSet<String>>>, objects: reachable::Reach },
    /// What the Dataplane lists, at the addresses that it says.
    Listed { shape: Shape, outbounds: Arc<[(String, u32, Listed)]> },
}

/// What an outbound of a Dataplane means.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Listed {
    Service(Tags),
    Object(Wanted),
}

impl Reach {
    pub(crate) fn of(metadata: &NodeMetadata, proxy: &Proxy, mode: MeshServicesMode) -> Self {
        let dataplane = &proxy.dataplane;
        let transparent = transparent(dataplane);
        let shape = metadata.shape(transparent);
        if shape.transparent {
            let listed = transparent.map(|transparent| &transparent.reachable_services).filter(|list| !list.is_empty());
            let services = listed.map(|list| Arc::new(list.iter().cloned().collect()));
            return Self::Redirected { shape, services, objects: reachable::Reach::of(mode, proxy) };
        }
        let own: BTreeSet<(&str, u32)> = dataplane
            .networking
            .iter()
            .flat_map(|networking| {
                let address = networking.address.as_str();
                networking.inbound.iter().map(move |inbound| (inbound.address_or(address), inbound.port))
            })
            .collect();
        // An address that is served here is not called from here.
        let outbounds = dataplane.outbounds().iter();
        let outbounds = outbounds.filter(|outbound| !own.contains(&(outbound.address(), outbound.port)));
        let outbounds = outbounds.filter_map(|outbound| {
            let listed = match &outbound.backend_ref {
                Some(reference) => Listed::Object(Wanted::by_outbound(reference, proxy)),
                None => Listed::Service(Some(&outbound.tags).filter(|tags| tags.contains_key(tags::SERVICE))?.clone()),
            };
            Some((outbound.address().to_owned(), outbound.port, listed))
        });
        Self::Listed { shape, outbounds: outbounds.collect() }
    }

    /// All targets that may be seen, where they are listed by their names.
    pub(crate) fn named(&self) -> Option<BTreeSet<Target>> {
        match self {
            Self::Redirected { services, objects, .. } => {
                let services = services.as_ref()?.iter().map(|name| Target::Service(name.as_str().into()));
                let objects = match objects {
                    reachable::Reach::Everything => return None,
                    reachable::Reach::Nothing => Vec::new(),
                    reachable::Reach::Listed(refs) => refs.iter().map(objects_of).collect::<Option<Vec<_>>>()?,
                };
                Some(services.chain(objects.into_iter().flatten()).collect())
            }
            Self::Listed { outbounds, .. } => {
                let targets = outbounds.iter().map(|(_, _, listed)| match listed {
                    Listed::Service(tags) => Some(vec![Target::Service(target::service(tags))]),
                    Listed::Object(wanted) => objects_of(wanted),
                });
                Some(targets.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
            }
        }
    }

    /// Whether an outbound is written by hand for a resource.
    pub(crate) fn lists_objects(&self) -> bool {
        match self {
            Self::Redirected { .. } => false,
            Self::Listed { outbounds, .. } => {
                outbounds.iter().any(|(_, _, listed)| matches!(listed, Listed::Object(_)))
            }
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::Redirected { shape, .. } | Self::Listed { shape, .. } => *shape,
        }
    }
}

/// What a reference by name can mean. `None` where it is by labels.
fn objects_of(wanted: &Wanted) -> Option<Vec<Target>> {
    Some(wanted.named()?.into_iter().map(|kri| Target::Object(Arc::new(kri))).collect())
}

/// What the Dataplane itself says of redirection.
pub(crate) fn transparent(dataplane: &Dataplane) -> Option<&TransparentProxying> {
    dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}
