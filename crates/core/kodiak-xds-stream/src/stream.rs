//! All types on one stream, and the order between resources.
//!
//! Make before break, as the protocol requires under "Eventual consistency considerations":
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations>
//!
//! A resource waits only for those that it refers to, never for all of a type ([`order`]): a cluster that does not get
//! warm holds up neither endpoints of other clusters nor listeners that do not use it.
//!
//! 1. Secrets and clusters are sent as they change. Endpoints wait until their cluster and its secrets were *sent*, so
//!    that a client expects the SPIFFE ID of a new endpoint. They do not wait until these are acknowledged: Envoy delays
//!    the acknowledgement of clusters until they are warm, and they need endpoints and secrets for that. Waiting for it
//!    would be a deadlock.
//! 2. Listeners and routes wait until their clusters, and the endpoints of these, are *acknowledged* or rejected, because
//!    only then are their destinations in use. A route also waits until changed listeners that refer to it were sent.
//! 3. A removed secret, cluster or assignment stays until no resource that the client may have refers to it ([`unused`]).
//!    Existing connections stay on the previous listeners until Envoy has drained them, so the carrier of the stream may
//!    ask for more time: each cluster then waits for its own [`Event::Drained`].
//!
//! Each type has at most one unanswered push; changes in the meantime are sent as one difference after the answer. A
//! rejection counts as an answer, so one invalid resource does not block others. Answers to new subscriptions wait for
//! nothing: the client needs them now, perhaps before it can acknowledge something else.
//!
//! Envoy warms an updated cluster anew and waits for its endpoints, though it has them. So endpoints are sent
//! again after their cluster. The assignment of a cluster has the name of the cluster.
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming>

mod order;
#[cfg(test)]
mod tests;
mod unused;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::counters::Counters;
use crate::message::{Nonce, Response};
use crate::resource::Snapshot;
use crate::subscription::{Draft, Part, Subscription};
use crate::type_url::{Requested, TypeUrl};

use unused::Unused;

/// Input of a stream; `R` is the request of its protocol.
#[derive(Debug, Clone)]
pub enum Event<R> {
    Request(Requested, R),
    Snapshot(Arc<Snapshot>),
    /// No connections remain on listeners from before this [drain](Stream::drains).
    Drained(u64),
}

/// Order of the types in the responses to one event.
const ORDER: [TypeUrl; TypeUrl::COUNT] =
    [TypeUrl::Secret, TypeUrl::Cluster, TypeUrl::Endpoint, TypeUrl::Listener, TypeUrl::Route];

/// A stream of one proxy; `S` is [`crate::delta::Subscription`] or [`crate::sotw::Subscription`].
#[derive(Debug)]
pub struct Stream<S> {
    snapshot: Option<Arc<Snapshot>>,
    subscriptions: [S; TypeUrl::COUNT],
    counters: [Counters; TypeUrl::COUNT],
    last_nonce: u64,
    /// Clusters that were sent before the client requested endpoints on this stream. A resuming client reports that it
    /// has their endpoints, but those clusters wait for them.
    early_clusters: BTreeSet<Arc<str>>,
    unused: Unused,
}

impl<S: Subscription> Default for Stream<S> {
    fn default() -> Self {
        Self {
            snapshot: None,
            subscriptions: TypeUrl::ALL.map(S::new),
            counters: <[Counters; TypeUrl::COUNT]>::default(),
            last_nonce: 0,
            early_clusters: BTreeSet::new(),
            unused: Unused::default(),
        }
    }
}

impl<S: Subscription> Stream<S> {
    /// A stream that removes no cluster before [`Event::Drained`].
    pub fn draining() -> Self {
        Self { unused: Unused::draining(), ..Self::default() }
    }

    /// Responses to send after this event, in order.
    pub fn on(&mut self, event: Event<S::Request>) -> Vec<Response> {
        let (types, may_remove) = match event {
            Event::Snapshot(snapshot) => {
                self.snapshot = Some(snapshot);
                (&ORDER[..], true)
            }
            Event::Drained(drain) => {
                self.unused.drained(drain);
                (&[TypeUrl::Cluster][..], true)
            }
            Event::Request(Requested::Served(type_url), request) => {
                self.request(type_url, request);
                // Other types refer to nothing.
                (order::after(type_url), unused::USERS.contains(&type_url))
            }
            Event::Request(unknown @ Requested::Unknown(_), request) => {
                let refusal = S::refuse(&request);
                return refusal.map(|draft| self.response(unknown, draft).0).into_iter().collect();
            }
        };
        let mut responses = Vec::new();
        if let Some(snapshot) = self.snapshot.clone() {
            for type_url in types {
                self.send(*type_url, &snapshot, &mut responses);
            }
            if may_remove && self.unused.update(&self.subscriptions, &snapshot, Nonce(self.last_nonce)) {
                for type_url in unused::REMOVED_LAST {
                    self.send(type_url, &snapshot, &mut responses);
                }
            }
        }
        responses
    }

    pub fn counters(&self, type_url: TypeUrl) -> &Counters {
        &self.counters[type_url.index()]
    }

    /// Whether the client requested this type on this stream.
    pub fn is_subscribed(&self, type_url: TypeUrl) -> bool {
        self.of(type_url).is_active()
    }

    /// Number of names that are stored for the client, so that the carrier can bound it.
    pub fn names(&self) -> usize {
        self.subscriptions.iter().map(Subscription::names).sum()
    }

    /// Whether the client has, and has answered, all resources of the last snapshot. Unused resources may still be
    /// there.
    pub fn is_settled(&self) -> bool {
        let settled = |each: TypeUrl, snapshot: &Snapshot| !self.of(each).is_waiting() && !self.lacks(each, snapshot);
        let all = |snapshot: &Snapshot| TypeUrl::ALL.into_iter().all(|each| settled(each, snapshot));
        self.snapshot.as_deref().is_some_and(all)
    }

    /// Number of drains that have begun. Each waits for its [`Event::Drained`], which also ends those before.
    pub fn drains(&self) -> u64 {
        self.unused.drains()
    }

    /// Whether there are clusters or listeners and the client has not subscribed to them yet. A client that reconnects
    /// subscribes to one type after the other.
    pub fn lacks_subscriptions(&self) -> bool {
        let lacks = |snapshot: &Snapshot, each| !snapshot.of(each).is_empty() && !self.is_subscribed(each);
        let types = [TypeUrl::Cluster, TypeUrl::Listener];
        self.snapshot.as_deref().is_some_and(|snapshot| types.into_iter().any(|each| lacks(snapshot, each)))
    }

    /// Whether something of this type is to be sent, apart from removals of what may be in use.
    fn lacks(&self, type_url: TypeUrl, snapshot: &Snapshot) -> bool {
        let (subscription, target) = (self.of(type_url), snapshot.of(type_url));
        let counts = |name: &Arc<str>| target.contains_key(name) || !type_url.removed_last();
        subscription.is_active() && (subscription.owes() || subscription.differing(target).any(counts))
    }

    /// Whether there is a secret that the client has not requested yet. Envoy acknowledges clusters and listeners before it
    /// requests the secrets that they wait for, so it still uses those before.
    pub fn lacks_secrets(&self) -> bool {
        let subscription = self.of(TypeUrl::Secret);
        let lacks = |snapshot: &Snapshot| snapshot.of(TypeUrl::Secret).keys().any(|name| !subscription.requests(name));
        self.snapshot.as_deref().is_some_and(lacks)
    }

    fn of(&self, type_url: TypeUrl) -> &S {
        &self.subscriptions[type_url.index()]
    }

    fn request(&mut self, type_url: TypeUrl, request: S::Request) {
        let target = self.snapshot.as_ref().map(|snapshot| snapshot.of(type_url));
        let subscription = &mut self.subscriptions[type_url.index()];
        let first = !subscription.is_active();
        let answer = subscription.request(request, target);
        self.counters[type_url.index()].count(answer);
        if let (true, TypeUrl::Endpoint, Some(target)) = (first, type_url, target) {
            let early: Vec<_> = std::mem::take(&mut self.early_clusters).into_iter().collect();
            self.subscriptions[type_url.index()].resend(&early, target);
        }
    }

    fn send(&mut self, type_url: TypeUrl, snapshot: &Snapshot, responses: &mut Vec<Response>) {
        let waiting;
        let part = if self.of(type_url).is_waiting() {
            Part::Owed
        } else {
            waiting = self.waiting(type_url, snapshot);
            Part::AllBut(&waiting)
        };
        let Some(draft) = self.subscriptions[type_url.index()].take(part, snapshot.of(type_url)) else { return };
        if type_url == TypeUrl::Cluster {
            self.warm(&draft, snapshot);
        }
        let (response, changed) = self.response(Requested::Served(type_url), draft);
        self.subscriptions[type_url.index()].sent(response.nonce, changed);
        self.counters[type_url.index()].sent += 1;
        responses.push(response);
    }

    /// See the module doc: endpoints are sent again after their clusters.
    fn warm(&mut self, clusters: &Draft, snapshot: &Snapshot) {
        let endpoints = &mut self.subscriptions[TypeUrl::Endpoint.index()];
        if endpoints.is_active() {
            endpoints.resend(&clusters.changed, snapshot.of(TypeUrl::Endpoint));
        } else {
            self.early_clusters.extend(clusters.changed.iter().cloned());
        }
    }

    /// The response, and the resources that change with it.
    fn response(&mut self, type_url: Requested, draft: Draft) -> (Response, Vec<Arc<str>>) {
        self.last_nonce += 1;
        let Draft { resources, removed, version, changed } = draft;
        (Response { type_url, nonce: Nonce(self.last_nonce), resources, removed, version }, changed)
    }
}
