//! The key by which proxies share outbound configuration.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kodiak_identity::Issuer;
use kodiak_model::{
    kinds::{
        dataplane::{Dataplane, TransparentProxying},
        mesh::MeshServicesMode,
    },
    tags,
};
use kodiak_policies::{mesh_proxy_patch::ProxyPatches, target::ProxyFacts};
use kodiak_reachability::SetId;
use kodiak_rollout::{AppliedProvider, Issuers};
use kodiak_rules::Proxy;
use kodiak_services::reachable::{self, Wanted};
use kodiak_xds::{
    input::{Shape, SpireAgent, Tags, TlsParameters, TlsSource},
    node::{NodeMetadata, features},
};

use crate::{
    rules::Lists,
    target::{self, Target},
};

/// Proxies with equal keys have equal outbound configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassKey {
    pub(crate) reach: Reach,
    /// Sets of destinations that they may call, sorted. `None`: all that are reachable.
    pub(crate) permitted: Option<Arc<[SetId]>>,
    /// Outbound policies that select them.
    pub(crate) policies: Lists,
    /// Their values of the tags that these policies match on.
    pub(crate) caller_tags: Tags,
    /// Facts about them that these policies need.
    pub(crate) facts: Arc<ProxyFacts>,
    /// Path of the CA bundle of the operating system.
    pub(crate) system_ca: Option<Arc<str>>,
    pub(crate) certificate: Certificate,
    /// TLS versions and ciphers of their calls with mTLS.
    pub(crate) tls_parameters: TlsParameters,
    /// Modifications of their resources.
    pub(crate) patches: Option<Arc<ProxyPatches>>,
}

/// Socket of the SPIRE agent, if the proxy does not report another one.
const SPIRE_SOCKET: &str = "/tmp/spire-agent/public/api.sock";

/// Source of the certificate of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Certificate {
    None,
    ControlPlane,
    Spire(Arc<SpireAgent>),
}

impl Certificate {
    /// Where a proxy with this certificate gets it. `accepted`: SPIFFE IDs of its peers; any when empty.
    pub(crate) fn source(&self, accepted: &[String]) -> TlsSource {
        match self {
            Self::None | Self::ControlPlane => TlsSource::ControlPlane,
            Self::Spire(agent) => TlsSource::Spire { agent: agent.clone(), accepted: accepted.to_vec() },
        }
    }

    pub(crate) fn of(issuers: &Issuers, proxy: &Proxy, metadata: &NodeMetadata) -> Self {
        match kodiak_identity::issuer_of(issuers, proxy) {
            None => Self::None,
            Some(Issuer::Identity { provider: AppliedProvider::Spire { timeout_milliseconds }, spiffe_id, .. }) => {
                let timeout = Duration::from_millis(*timeout_milliseconds);
                let socket = metadata.spire_socket.clone().unwrap_or_else(|| SPIRE_SOCKET.to_owned());
                Self::Spire(Arc::new(SpireAgent { spiffe_id, socket, timeout }))
            }
            Some(_) => Self::ControlPlane,
        }
    }
}

/// Reachable destinations, and their addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reach {
    /// Transparent proxying: all reachable destinations, at virtual addresses.
    Redirected {
        shape: Shape,
        /// Whether listeners at loopback addresses bind them.
        binds_loopback: bool,
        services: Option<Arc<BTreeSet<String>>>,
        objects: reachable::Reach,
        direct_access: Option<Arc<DirectAccess>>,
    },
    /// The outbounds that the Dataplane lists, at their addresses.
    Listed { shape: Shape, outbounds: Arc<[(String, u32, OutboundRef)]> },
}

/// Services whose instances a proxy calls by their own addresses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirectAccess {
    /// `None` for all.
    services: Option<BTreeSet<String>>,
    /// Addresses of the proxy's own inbounds, whose listeners are there already.
    own: BTreeSet<(String, u32)>,
}

impl DirectAccess {
    fn of(services: &[String], dataplane: &Dataplane) -> Option<Self> {
        let address = dataplane.networking.as_ref().map_or("", |networking| networking.address.as_str());
        let own = dataplane.inbounds().iter().map(|inbound| (inbound.address_or(address).to_owned(), inbound.port));
        (!services.is_empty()).then(|| Self {
            services: services.iter().all(|name| name != "*").then(|| services.iter().cloned().collect()),
            own: own.collect(),
        })
    }

    pub(crate) fn includes(&self, service: &str) -> bool {
        self.services.as_ref().is_none_or(|services| services.contains(service))
    }

    pub(crate) fn is_own(&self, address: &str, port: u32) -> bool {
        self.own.contains(&(address.to_owned(), port))
    }
}

/// The reference of an outbound of a Dataplane.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum OutboundRef {
    Service(Tags),
    Object(Wanted),
}

impl ClassKey {
    /// All targets that may be reachable, but for those of `permitted`. `None` if they are not listed by name.
    pub(crate) fn named_targets(&self) -> Option<BTreeSet<Target>> {
        self.reach.named_targets(self.permitted.is_some())
    }
}

impl Reach {
    /// Whether its connections are redirected, so that destinations can be trimmed. Outbounds at addresses of their own are
    /// what the Dataplane asks for.
    pub(crate) fn is_redirected(&self) -> bool {
        matches!(self, Self::Redirected { .. })
    }

    /// Whether a list of the Dataplane leaves destinations out.
    pub(crate) fn is_bounded(&self) -> bool {
        match self {
            Self::Redirected { services, objects, .. } => {
                services.is_some() || matches!(objects, reachable::Reach::Listed(_))
            }
            Self::Listed { .. } => true,
        }
    }

    pub(crate) fn of(metadata: &NodeMetadata, proxy: &Proxy, mode: MeshServicesMode) -> Self {
        let dataplane = &proxy.dataplane;
        let transparent = transparent(dataplane);
        let shape = metadata.shape(transparent);
        let binds_loopback = metadata.has(features::BIND_OUTBOUNDS);
        if shape.transparent || binds_loopback {
            let listed = transparent.map(|transparent| &transparent.reachable_services).filter(|list| !list.is_empty());
            let services = listed.map(|list| Arc::new(list.iter().cloned().collect()));
            let direct = transparent.filter(|_| shape.transparent);
            let direct =
                direct.and_then(|transparent| DirectAccess::of(&transparent.direct_access_services, dataplane));
            return Self::Redirected {
                shape,
                binds_loopback,
                services,
                objects: reachable::Reach::of(mode, proxy),
                direct_access: direct.map(Arc::new),
            };
        }
        let outbounds = dataplane.usable_outbounds().filter_map(|outbound| {
            let listed = match &outbound.backend_ref {
                Some(reference) => OutboundRef::Object(Wanted::by_outbound(reference, proxy)),
                None => {
                    OutboundRef::Service(Some(&outbound.tags).filter(|tags| tags.contains_key(tags::SERVICE))?.clone())
                }
            };
            Some((outbound.address().to_owned(), outbound.port, listed))
        });
        Self::Listed { shape, outbounds: outbounds.collect() }
    }

    fn named_targets(&self, has_permitted: bool) -> Option<BTreeSet<Target>> {
        match self {
            Self::Redirected { services, objects, direct_access, .. } => {
                let direct = match direct_access {
                    Some(direct) => Some(direct.services.as_ref()?),
                    None => None,
                };
                let direct = direct.into_iter().flatten();
                // Lists take nothing else out of those that the proxy may call.
                let (services, objects) = match (services, objects) {
                    _ if has_permitted => (None, Vec::new()),
                    (None, _) | (_, reachable::Reach::Everything) => return None,
                    (Some(services), reachable::Reach::Nothing) => (Some(services), Vec::new()),
                    (Some(services), reachable::Reach::Listed(refs)) => {
                        (Some(services), refs.iter().map(objects_by_name).collect::<Option<Vec<_>>>()?)
                    }
                };
                let services = services.into_iter().flat_map(|list| list.iter()).chain(direct);
                let services = services.map(|name| Target::Service(name.as_str().into()));
                Some(services.chain(objects.into_iter().flatten()).collect())
            }
            Self::Listed { outbounds, .. } => {
                let targets = outbounds.iter().map(|(_, _, listed)| match listed {
                    OutboundRef::Service(tags) => Some(vec![Target::Service(target::service(tags))]),
                    OutboundRef::Object(wanted) => objects_by_name(wanted),
                });
                Some(targets.collect::<Option<Vec<_>>>()?.into_iter().flatten().collect())
            }
        }
    }

    /// Whether the Dataplane lists an outbound to a resource.
    pub(crate) fn lists_objects(&self) -> bool {
        match self {
            Self::Redirected { .. } => false,
            Self::Listed { outbounds, .. } => {
                outbounds.iter().any(|(_, _, listed)| matches!(listed, OutboundRef::Object(_)))
            }
        }
    }

    pub(crate) fn direct_access(&self) -> Option<&Arc<DirectAccess>> {
        match self {
            Self::Redirected { direct_access, .. } => direct_access.as_ref(),
            Self::Listed { .. } => None,
        }
    }

    pub(crate) fn binds_loopback(&self) -> bool {
        match self {
            Self::Redirected { binds_loopback, .. } => *binds_loopback,
            Self::Listed { .. } => false,
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        match self {
            Self::Redirected { shape, .. } | Self::Listed { shape, .. } => *shape,
        }
    }
}

/// Resources to which a reference by name may resolve. `None` if it is by labels.
fn objects_by_name(wanted: &Wanted) -> Option<Vec<Target>> {
    Some(wanted.named()?.into_iter().map(|kri| Target::Object(Arc::new(kri))).collect())
}

/// Transparent proxying as the Dataplane configures it; the metadata of the proxy may override it.
pub(crate) fn transparent(dataplane: &Dataplane) -> Option<&TransparentProxying> {
    dataplane.networking.as_ref()?.transparent_proxying.as_ref()
}
