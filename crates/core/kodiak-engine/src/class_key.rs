//! Which proxies have the same calls.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_model::{
    kinds::dataplane::{Dataplane, TransparentProxying},
    tags,
};
use kodiak_xds::{
    input::{Shape, Tags},
    node::NodeMetadata,
};

use crate::rules::Lists;

/// Proxies with equal keys have equal calls.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    pub(crate) reach: Reach,
    /// The policies that are about their calls.
    pub(crate) policies: Lists,
    /// What they have of the tags that these policies look at.
    pub(crate) caller: Tags,
}

/// What they see, and where.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Connections are redirected: all services that may be reached, at their virtual addresses.
    Redirected { shape: Shape, reachable: Option<Arc<BTreeSet<String>>> },
    /// What the Dataplane lists, at the addresses that it says.
    Listed { shape: Shape, outbounds: Arc<[(String, u32, Tags)]> },
}

impl Reach {
    pub(crate) fn of(metadata: &NodeMetadata, dataplane: &Dataplane) -> Self {
        let transparent = transparent(dataplane);
        let shape = metadata.shape(transparent);
        if shape.transparent {
            let listed = transparent.map(|transparent| &transparent.reachable_services).filter(|list| !list.is_empty());
            let reachable = listed.map(|list| Arc::new(list.iter().cloned().collect()));
            return Self::Redirected { shape, reachable };
        }
        let own: BTreeSet<(&str, u32)> = dataplane
            .networking
            .iter()
            .flat_map(|networking| {
                let address = networking.address.as_str();
                networking.inbound.iter().map(move |inbound| (inbound.address_or(address), inbound.port))
            })
            .collect();
        let outbounds = dataplane.outbounds().iter().filter(|outbound| {
            // An address that is served here is not called from here.
            outbound.tags.contains_key(tags::SERVICE) && !own.contains(&(outbound.address(), outbound.port))
        });
        let outbounds = outbounds.map(|outbound| (outbound.address().to_owned(), outbound.port, outbound.tags.clone()));
        Self::Listed { shape, outbounds: outbounds.collect() }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::Redirected { shape, .. } | Self::Listed { shape, .. } => *shape,
        }
    }
}

/// What the Dataplane itself says of redirection.
pub(crate) fn transparent(dataplane: &Dataplane) -> Option<&TransparentProxying> {
    dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}
