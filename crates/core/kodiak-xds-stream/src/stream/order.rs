//! Differences that must not be sent yet, because of references between resources.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Stream;
use crate::resource::{Encoded, Resources, Snapshot};
use crate::subscription::{Held, Subscription};
use crate::type_url::TypeUrl;

/// Types that an answer to this type may let go on, in the order of their responses. Answers to endpoints are the most
/// frequent ones, and must not cost a look at all clusters.
pub(super) fn after(type_url: TypeUrl) -> &'static [TypeUrl] {
    use TypeUrl::{Cluster, Endpoint, Listener, Route, Secret};
    match type_url {
        Secret => &[Secret, Endpoint],
        Cluster => &[Cluster, Endpoint, Listener, Route],
        Endpoint => &[Endpoint, Listener, Route],
        Listener => &[Listener, Route],
        Route => &[Route],
    }
}

impl<S: Subscription> Stream<S> {
    /// Names of the type that differ and have to wait.
    pub(super) fn waiting(&self, type_url: TypeUrl, snapshot: &Snapshot) -> BTreeSet<Arc<str>> {
        let (subscription, target) = (self.of(type_url), snapshot.of(type_url));
        let waits = |name: &&Arc<str>| match target.get(*name) {
            Some(resource) => !self.may_change(type_url, resource, snapshot),
            None => type_url.removed_last() && !self.unused.may_remove(type_url, name),
        };
        let mut waiting: BTreeSet<_> = subscription.differing(target).filter(waits).cloned().collect();
        if type_url == TypeUrl::Listener {
            self.keep_addresses(&mut waiting, target);
        }
        waiting
    }

    fn may_change(&self, type_url: TypeUrl, resource: &Encoded, snapshot: &Snapshot) -> bool {
        match type_url {
            TypeUrl::Secret | TypeUrl::Cluster => true,
            TypeUrl::Endpoint => self.expects_endpoints(&resource.name, snapshot),
            TypeUrl::Listener => resource.needs.iter().all(|(kind, name)| match kind {
                TypeUrl::Cluster => self.is_ready(name, snapshot),
                TypeUrl::Route => snapshot.of(TypeUrl::Route).get(name).is_none_or(|route| self.leads(route, snapshot)),
                TypeUrl::Endpoint | TypeUrl::Listener | TypeUrl::Secret => true,
            }),
            TypeUrl::Route => self.leads(resource, snapshot) && !self.is_awaited(resource, snapshot),
        }
    }

    /// Whether the cluster of these endpoints, and its secrets, were sent.
    fn expects_endpoints(&self, name: &str, snapshot: &Snapshot) -> bool {
        let cluster = snapshot.of(TypeUrl::Cluster).get(name);
        let secrets =
            cluster.into_iter().flat_map(|cluster| &cluster.needs).filter(|(kind, _)| *kind == TypeUrl::Secret);
        self.was_sent(TypeUrl::Cluster, name, snapshot)
            && secrets.into_iter().all(|(_, secret)| self.was_sent(TypeUrl::Secret, secret, snapshot))
    }

    /// Whether all clusters of a route are in use.
    fn leads(&self, route: &Encoded, snapshot: &Snapshot) -> bool {
        route.needs.iter().all(|(kind, name)| *kind != TypeUrl::Cluster || self.is_ready(name, snapshot))
    }

    /// Whether the cluster and its endpoints are answered.
    fn is_ready(&self, cluster: &str, snapshot: &Snapshot) -> bool {
        [TypeUrl::Cluster, TypeUrl::Endpoint]
            .into_iter()
            .all(|each| self.was_sent(each, cluster, snapshot) && !self.of(each).awaits(cluster))
    }

    /// Whether a changed listener that refers to this route was not sent yet.
    fn is_awaited(&self, route: &Encoded, snapshot: &Snapshot) -> bool {
        let listeners = snapshot.of(TypeUrl::Listener);
        let changed = self.of(TypeUrl::Listener).differing(listeners).filter_map(|name| listeners.get(name));
        let mut needs = changed.flat_map(|listener| &listener.needs);
        needs.any(|(kind, name)| *kind == TypeUrl::Route && *name == route.name)
    }

    /// Whether the client was sent the current version. Also true for what it did not request.
    fn was_sent(&self, type_url: TypeUrl, name: &str, snapshot: &Snapshot) -> bool {
        let subscription = self.of(type_url);
        let current = |resource: &Arc<Encoded>| subscription.held(name).version() == Some(resource.version);
        !subscription.is_active() || !subscription.requests(name) || snapshot.of(type_url).get(name).is_none_or(current)
    }

    /// A new listener may have the address of a removed one, and Envoy rejects two with the same address. So if a new one
    /// has to wait, removed ones stay, and all new ones wait with it.
    fn keep_addresses(&self, waiting: &mut BTreeSet<Arc<str>>, target: &Resources) {
        let listeners = self.of(TypeUrl::Listener);
        let is_new = |name: &Arc<str>| target.contains_key(name) && listeners.held(name) == Held::Nothing;
        let is_removed = |name: &&Arc<str>| !target.contains_key(*name);
        if waiting.iter().any(is_new) && listeners.differing(target).any(|name| is_removed(&name)) {
            let moved = listeners.differing(target).filter(|name| is_removed(name) || is_new(name));
            waiting.extend(moved.cloned());
        }
    }
}
