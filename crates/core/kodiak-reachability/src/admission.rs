//! Permissions of the inbounds behind a destination, for one [`Purpose`].
//!
//! Dataplanes in this zone are known, so their permissions are exact. A MeshService of this zone without Dataplanes stands
//! for a proxy with one inbound that has the tags of its selector, its zone and nothing else that is known. Those of other
//! zones admit everybody: policies of this zone do not select their Dataplanes, and the policies that do may be unknown
//! here.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::Arc};

use kodiak_identity::{TlsPolicies, is_permissive};
use kodiak_model::{
    InboundTls,
    kinds::{
        dataplane::{Dataplane, Inbound, Networking},
        mesh_service::Selector,
    },
    labels, tags,
};
use kodiak_policies::{
    Entry,
    mesh_traffic_permission::{KIND, Permissions},
};
use kodiak_rollout::Rollout;
use kodiak_rules::{
    Policy, PolicyIndex, Proxy, Shadow,
    partial::{PartialProxy, Possible},
};
use kodiak_world::{Destination, destination::Service};

use crate::{Admission, AnyOf, Purpose, enforcement::InboundEffect};

/// Permissions of a mesh, and the modes of its inbounds.
#[derive(Clone, Copy)]
pub struct Source<'a> {
    pub index: &'a PolicyIndex,
    pub shadow: Shadow,
    pub rollout: &'a Rollout,
    pub purpose: Purpose,
}

impl Admission {
    /// Of a destination that any of these serve.
    pub fn any(all: impl IntoIterator<Item = Self>) -> Self {
        let mut permissions = Vec::new();
        for one in all {
            match one {
                Self::Open => return Self::Open,
                Self::By(more) => permissions.extend(more),
            }
        }
        permissions.sort_by_key(Arc::as_ptr);
        permissions.dedup();
        Self::By(permissions)
    }

    /// The admission of calls with this SNI.
    #[must_use]
    pub fn at(self, sni: &str) -> Self {
        match self {
            Self::Open => Self::Open,
            Self::By(permissions) => {
                Self::any([Self::By(permissions.iter().map(|one| Arc::new(one.at(sni))).collect())])
            }
        }
    }
}

/// Inbounds at which calls of a MeshService arrive.
#[derive(Debug, Clone, PartialEq)]
pub enum Serving<'a> {
    /// Inbounds by the name of their Dataplane and their position.
    Inbounds(Vec<(&'a str, usize)>),
    /// No inbound is known; callers that its Dataplanes may admit.
    Unseen(Admission),
}

impl Source<'_> {
    /// One inbound, by the name of its Dataplane and its position.
    pub fn inbound(&self, proxy: &str, position: usize) -> Admission {
        self.inbounds([(proxy, position)])
    }

    /// Inbounds by the name of their Dataplane and their position.
    pub fn inbounds<'b>(&self, inbounds: impl IntoIterator<Item = (&'b str, usize)>) -> Admission {
        // Instances of one service mostly have the same policies.
        let mut known: Vec<(Vec<Arc<Policy>>, Arc<Permissions>)> = Vec::new();
        for (proxy, position) in inbounds {
            match self.effect(proxy, position) {
                InboundEffect::AdmitsAll => return Admission::Open,
                InboundEffect::AdmitsNone => continue,
                InboundEffect::ByPermissions => (),
            }
            let matched = self.index.matched(KIND.name, proxy, self.shadow);
            let policies = matched.inbounds.get(&position).map_or(&[][..], Vec::as_slice);
            if !known.iter().any(|(other, _)| same(other, policies)) {
                known.push((policies.to_vec(), permissions(policies)));
            }
        }
        let all = known.into_iter().map(|(_, permissions)| Arc::new(permissions.into()));
        Admission::any([Admission::By(all.collect())])
    }

    /// A MeshService, with the Dataplanes of this zone that it selects. What another zone permits is unknown, so its services
    /// are open.
    pub fn service<'b>(
        &self,
        destination: &Destination,
        service: &Service,
        members: impl IntoIterator<Item = &'b Arc<Proxy>>,
    ) -> Admission {
        match self.serving(destination, service, members) {
            Serving::Inbounds(inbounds) => self.inbounds(inbounds),
            Serving::Unseen(admission) => admission,
        }
    }

    /// Like [`service`](Self::service), with the inbounds that decide.
    pub fn serving<'b>(
        &self,
        destination: &Destination,
        service: &Service,
        members: impl IntoIterator<Item = &'b Arc<Proxy>>,
    ) -> Serving<'b> {
        if !destination.is_local() {
            return Serving::Unseen(Admission::Open);
        }
        let inbounds: Vec<_> = members.into_iter().flat_map(|proxy| inbounds_behind(service, proxy)).collect();
        if inbounds.is_empty() {
            Serving::Unseen(self.unseen(destination, &service.selector))
        } else {
            Serving::Inbounds(inbounds)
        }
    }

    /// Policies that certainly select the inbound count together. One that perhaps does counts alone as well: if it
    /// decides about a caller, it does so with one of its own items.
    fn unseen(&self, destination: &Destination, selector: &Selector) -> Admission {
        let loses_permissive = self.purpose == Purpose::Trimming;
        if loses_permissive && self.rollout.accept != InboundTls::Strict {
            return Admission::Open;
        }
        let proxy = stand_in(destination, selector);
        let known = PartialProxy::of(&proxy);
        let all_permissive = |policies: &[Arc<Policy>]| policies.iter().any(|policy| is_permissive(policy));
        let may_be_open = TlsPolicies::kinds().any(|kind| {
            let Possible { group, others } = self.index.possible(kind.name, &known, self.shadow);
            *group.derived(all_permissive) || all_permissive(&others)
        });
        if loses_permissive && may_be_open {
            return Admission::Open;
        }
        let matched = self.index.matched_by(KIND.name, &proxy, self.shadow);
        let certain = matched.inbounds.get(&0).map_or(&[][..], Vec::as_slice);
        let alone = |policy: &Arc<Policy>| permissions(std::slice::from_ref(policy));
        let Possible { group, others } = self.index.possible(KIND.name, &known, self.shadow);
        let mut all = vec![Arc::new(permissions(certain).into())];
        if !group.policies().is_empty() {
            all.push(group.derived(|policies| AnyOf::of(policies.iter().map(alone))));
        }
        let perhaps = others.iter().filter(|policy| !certain.iter().any(|other| Arc::ptr_eq(other, policy)));
        all.extend(perhaps.map(|policy| Arc::new(alone(policy).into())));
        Admission::any([Admission::By(all)])
    }
}

pub(crate) fn permissions(policies: &[Arc<Policy>]) -> Arc<Permissions> {
    let entries = policies.iter().flat_map(|policy| Entry::of(&policy.kri().to_string().into(), &policy.body));
    Arc::new(Permissions::of(&entries.collect::<Vec<_>>()))
}

fn same(a: &[Arc<Policy>], b: &[Arc<Policy>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// Inbounds of a Dataplane that serve a port of a MeshService, by the name of the Dataplane and their position.
pub fn inbounds_behind<'b>(service: &Service, proxy: &'b Proxy) -> impl Iterator<Item = (&'b str, usize)> {
    let inbounds = proxy.dataplane.inbounds().iter().enumerate();
    let serves = |inbound: &Inbound| inbound.is_served() && service.ports.iter().any(|port| port.is_served_by(inbound));
    inbounds.filter(move |(_, inbound)| serves(inbound)).map(|(position, _)| (&*proxy.name, position))
}

/// A proxy with the properties that all Dataplanes of a MeshService have, and without a name if that is unknown.
pub fn stand_in(destination: &Destination, selector: &Selector) -> Proxy {
    let mut own: BTreeMap<String, String> = selector.dataplane_tags.clone().unwrap_or_default();
    let wanted = selector.dataplane_labels.as_ref().and_then(|labels| labels.match_labels.clone());
    let mut proxy_labels = wanted.unwrap_or_default();
    for known in [labels::ZONE, labels::ORIGIN] {
        if let Some(value) = destination.labels.get(known) {
            proxy_labels.insert(known.to_owned(), value.clone());
        }
    }
    if let Some(zone) = destination.labels.get(labels::ZONE) {
        own.entry(tags::ZONE.to_owned()).or_insert_with(|| zone.clone());
    }
    let name = selector.dataplane_ref.as_ref().map_or("", |reference| &*reference.name);
    let inbound = Inbound { tags: own, ..Inbound::default() };
    let networking = Networking { inbound: vec![inbound], ..Networking::default() };
    Proxy {
        mesh: destination.kri.mesh.as_str().into(),
        name: name.into(),
        labels: Arc::new(proxy_labels),
        dataplane: Arc::new(Dataplane { networking: Some(networking), ..Dataplane::default() }),
        admission: None,
    }
}
