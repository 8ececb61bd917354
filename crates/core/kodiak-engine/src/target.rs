//! Parts of destinations, and sets of destinations.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_identity::ServerAccess;
use kodiak_model::{Kri, TargetKind, TargetRef, tags};
use kodiak_policies::target::Collector;
use kodiak_rules::{
    Policy,
    outbound::{PolicyTargets, targets_of},
};
use kodiak_xds::{
    input::Tags,
    names::{self, Naming},
};

pub(crate) use kodiak_reachability::Target;

use crate::objects::Objects;

/// The part of a destination that one cluster serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClusterTarget {
    /// A subset of a service; the tags include `kuma.io/service`.
    Service(Arc<Tags>),
    Port(Arc<PortTarget>),
    /// Instances that are called by their own addresses, and reached like this.
    DirectAccess(ServerAccess),
    /// Not a destination: a server that receives logs or traces.
    Collector(Arc<Collector>),
}

/// A port of a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PortTarget {
    pub(crate) object: Arc<Kri>,
    /// KRI of `object` with the section of the port.
    pub(crate) kri: Arc<Kri>,
    pub(crate) number: u32,
}

impl PortTarget {
    pub(crate) fn new(object: &Arc<Kri>, section: &str, number: u32) -> Self {
        let kri = Kri { section: section.to_owned(), ..(**object).clone() };
        Self { object: object.clone(), kri: Arc::new(kri), number }
    }

    pub(crate) fn cluster_name(&self, naming: Naming) -> Arc<str> {
        names::port_cluster(naming, &self.kri, self.number).into()
    }
}

impl ClusterTarget {
    pub(crate) fn cluster_name(&self, naming: Naming) -> Arc<str> {
        match self {
            Self::Service(tags) => names::service_cluster(tags).into(),
            Self::Port(port) => port.cluster_name(naming),
            Self::DirectAccess(ServerAccess::Regular) => names::DIRECT_ACCESS.into(),
            Self::DirectAccess(ServerAccess::Plaintext) => names::DIRECT_ACCESS_PLAINTEXT.into(),
            Self::DirectAccess(ServerAccess::Closed) => names::DIRECT_ACCESS_CLOSED.into(),
            Self::Collector(collector) => collector.name.clone(),
        }
    }

    pub(crate) fn destination(&self) -> Target {
        match self {
            Self::Service(tags) => Target::Service(service(tags)),
            Self::Port(port) => Target::Object(port.object.clone()),
            // No service has a colon in its name.
            Self::DirectAccess(_) => Target::Service(format!("{}:", names::DIRECT_ACCESS).into()),
            Self::Collector(collector) => Target::Service(format!("{}:", collector.name).into()),
        }
    }
}

pub(crate) fn service(tags: &Tags) -> Arc<str> {
    tags.get(tags::SERVICE).map_or("", String::as_str).into()
}

/// Destinations to compute again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Targets {
    All,
    Some(BTreeSet<Target>),
}

impl Default for Targets {
    fn default() -> Self {
        Self::Some(BTreeSet::new())
    }
}

impl Targets {
    /// The destinations that the `to` items of a policy select; all for a policy without lists.
    pub(crate) fn of(policy: &Policy, objects: &Objects) -> Self {
        let top = policy.body.target.as_ref().and_then(TargetRef::known_kind);
        if top == Some(TargetKind::MeshHTTPRoute) || policy.body.default.is_some() {
            return Self::All;
        }
        let named = policy.body.to.iter().map(|item| match item.target.known_kind() {
            Some(TargetKind::MeshService | TargetKind::MeshServiceSubset) => Some(item.target.name.as_deref()),
            Some(TargetKind::MeshExternalService | TargetKind::MeshMultiZoneService) => Some(None),
            _ => None,
        });
        let Some(named) = named.collect::<Option<Vec<_>>>() else { return Self::All };
        let mut targets: BTreeSet<Target> =
            named.into_iter().flatten().map(|name| Target::Service(name.into())).collect();
        match targets_of(policy) {
            PolicyTargets::All => return Self::All,
            meant @ PolicyTargets::Some { .. } => targets.extend(objects.selected_by(&meant).map(Target::Object)),
        }
        Self::Some(targets)
    }

    pub(crate) fn extend(&mut self, other: Self) {
        match (&mut *self, other) {
            (Self::Some(own), Self::Some(more)) => own.extend(more),
            (Self::All, _) => (),
            (own, Self::All) => *own = Self::All,
        }
    }

    pub(crate) fn touched(&self) -> Touched<'_> {
        match self {
            Self::All => Touched::All,
            Self::Some(targets) => Touched::Some(targets),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Some(targets) if targets.is_empty())
    }
}

/// A borrowed [`Targets`].
#[derive(Clone, Copy)]
pub(crate) enum Touched<'a> {
    All,
    Some(&'a BTreeSet<Target>),
}

impl<'a> Touched<'a> {
    /// `None` for all.
    pub(crate) fn services(self) -> Option<impl Iterator<Item = &'a Arc<str>>> {
        match self {
            Self::All => None,
            Self::Some(targets) => Some(targets.iter().filter_map(Target::service)),
        }
    }

    pub(crate) fn has_service(self, service: &str) -> bool {
        match self {
            Self::All => true,
            Self::Some(targets) => targets.contains(&Target::Service(service.into())),
        }
    }

    pub(crate) fn has_objects(self) -> bool {
        match self {
            Self::All => true,
            Self::Some(targets) => targets.iter().any(|target| target.object().is_some()),
        }
    }
}
