//! All types on one stream, and the order between them.
//!
//! Make before break, as the protocol requires under "Eventual consistency considerations":
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#eventual-consistency-considerations>
//!
//! 1. Secrets, then clusters, then their endpoints, are sent as they change. Endpoints wait until changed secrets and
//!    clusters were *sent*, so that a client expects the SPIFFE ID of a new endpoint. They do not wait until these are
//!    acknowledged: Envoy delays the acknowledgement of clusters until they are warm, and they need endpoints and
//!    secrets for that. Waiting for it would be a deadlock.
//! 2. Listeners, then routes, wait until clusters and endpoints are *acknowledged* or rejected, because only then are
//!    their destinations in use. Routes come after listeners on the same stream and need no answer in between.
//! 3. When listeners and routes are answered, unused endpoints, then clusters, then secrets are removed. Existing
//!    connections stay on the previous listeners until Envoy has drained them, so the carrier of the stream may ask
//!    for more time: removals then wait for [`Event::Drained`].
//!
//! Each type has at most one unanswered push; changes in the meantime are sent as one difference after the answer. A
//! rejection counts as an answer, so one invalid type does not block the others. Answers to new subscriptions
//! wait for nothing: the client needs them now, perhaps before it can acknowledge something else.
//!
//! Envoy warms an updated cluster anew and waits for its endpoints, though it has them. So endpoints are sent
//! again after their cluster. The assignment of a cluster has the name of the cluster.
//! <https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol#resource-warming>

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::counters::Counters;
use crate::message::{Nonce, Response};
use crate::resource::Snapshot;
use crate::subscription::{Draft, Part, Subscription};
use crate::type_url::{Requested, TypeUrl};

/// Input of a stream; `R` is the request of its protocol.
#[derive(Debug, Clone)]
pub enum Event<R> {
    Request(Requested, R),
    Snapshot(Arc<Snapshot>),
    /// No connections remain on listeners from before this [drain](Stream::drain).
    Drained(u64),
}

/// Order in which types are added and changed.
const MAKE: [TypeUrl; TypeUrl::COUNT] =
    [TypeUrl::Secret, TypeUrl::Cluster, TypeUrl::Endpoint, TypeUrl::Listener, TypeUrl::Route];
/// Order in which types are removed. Nothing references listeners and routes, and they are removed together with
/// changes of their type: a new listener may need the address of a removed one.
const BREAK: [TypeUrl; 3] = [TypeUrl::Endpoint, TypeUrl::Cluster, TypeUrl::Secret];

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
    /// Whether removals wait for [`Event::Drained`].
    drains: bool,
    /// Number of replacements of listeners or routes.
    replaced: u64,
    /// The last replacement after which connections were drained.
    drained: u64,
}

impl<S: Subscription> Default for Stream<S> {
    fn default() -> Self {
        Self {
            snapshot: None,
            subscriptions: TypeUrl::ALL.map(S::new),
            counters: <[Counters; TypeUrl::COUNT]>::default(),
            last_nonce: 0,
            early_clusters: BTreeSet::new(),
            drains: false,
            replaced: 0,
            drained: 0,
        }
    }
}

impl<S: Subscription> Stream<S> {
    /// A stream that removes nothing before [`Event::Drained`].
    pub fn draining() -> Self {
        Self { drains: true, ..Self::default() }
    }

    /// Responses to send after this event, in order.
    pub fn on(&mut self, event: Event<S::Request>) -> Vec<Response> {
        match event {
            Event::Snapshot(snapshot) => self.snapshot = Some(snapshot),
            Event::Drained(drain) => self.drained = self.drained.max(drain),
            Event::Request(Requested::Served(type_url), request) => self.request(type_url, request),
            Event::Request(unknown @ Requested::Unknown(_), request) => {
                let refusal = S::refuse(&request);
                return refusal.map(|draft| self.response(unknown, draft)).into_iter().collect();
            }
        }
        let mut responses = Vec::new();
        if let Some(snapshot) = self.snapshot.clone() {
            for type_url in MAKE {
                self.make(type_url, &snapshot, &mut responses);
            }
            for type_url in BREAK {
                if self.may_break(type_url, &snapshot) {
                    self.send(type_url, Part::Break, &snapshot, &mut responses);
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
        let settled = |each: TypeUrl, snapshot: &Snapshot| {
            let subscription = self.of(each);
            !subscription.is_waiting() && !subscription.is_pending(Part::Make, snapshot.of(each))
        };
        let all = |snapshot: &Snapshot| TypeUrl::ALL.into_iter().all(|each| settled(each, snapshot));
        self.snapshot.as_deref().is_some_and(all)
    }

    /// The drain that removals wait for, once listeners and routes are answered. `None` when nothing waits.
    pub fn drain(&self) -> Option<u64> {
        let waits = |snapshot: &Snapshot| {
            let replaced = [TypeUrl::Listener, TypeUrl::Route].into_iter().all(|each| self.settled(each, snapshot));
            replaced && BREAK.into_iter().any(|each| self.of(each).is_pending(Part::Break, snapshot.of(each)))
        };
        (self.is_draining() && self.snapshot.as_deref().is_some_and(waits)).then_some(self.replaced)
    }

    fn is_draining(&self) -> bool {
        self.drains && self.drained < self.replaced
    }

    /// Whether there are clusters or listeners and the client has not subscribed to them yet. A client that reconnects
    /// subscribes to one type after the other.
    pub fn lacks_subscriptions(&self) -> bool {
        let lacks = |snapshot: &Snapshot, each| !snapshot.of(each).is_empty() && !self.is_subscribed(each);
        let types = [TypeUrl::Cluster, TypeUrl::Listener];
        self.snapshot.as_deref().is_some_and(|snapshot| types.into_iter().any(|each| lacks(snapshot, each)))
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

    fn make(&mut self, type_url: TypeUrl, snapshot: &Snapshot, responses: &mut Vec<Response>) {
        let may_make = !self.of(type_url).is_waiting() && self.may_make(type_url, snapshot);
        self.send(type_url, if may_make { Part::Make } else { Part::Owed }, snapshot, responses);
    }

    fn may_make(&self, type_url: TypeUrl, snapshot: &Snapshot) -> bool {
        let made = |before| !self.of(before).is_pending(Part::Make, snapshot.of(before));
        let answered = |before| made(before) && !self.of(before).is_waiting();
        match type_url {
            TypeUrl::Secret | TypeUrl::Cluster => true,
            TypeUrl::Endpoint => made(TypeUrl::Cluster) && made(TypeUrl::Secret),
            TypeUrl::Listener => answered(TypeUrl::Cluster) && answered(TypeUrl::Endpoint),
            TypeUrl::Route => answered(TypeUrl::Cluster) && answered(TypeUrl::Endpoint) && made(TypeUrl::Listener),
        }
    }

    fn may_break(&self, type_url: TypeUrl, snapshot: &Snapshot) -> bool {
        let settled = |before: &[TypeUrl]| before.iter().all(|before| self.settled(*before, snapshot));
        let users: &[TypeUrl] = match type_url {
            TypeUrl::Listener | TypeUrl::Route => &[],
            TypeUrl::Endpoint => &[TypeUrl::Listener, TypeUrl::Route],
            TypeUrl::Cluster => &[TypeUrl::Listener, TypeUrl::Route, TypeUrl::Endpoint],
            TypeUrl::Secret => &[TypeUrl::Listener, TypeUrl::Route, TypeUrl::Endpoint, TypeUrl::Cluster],
        };
        let subscription = self.of(type_url);
        let made = !subscription.is_pending(Part::Make, snapshot.of(type_url));
        !self.is_draining() && made && !subscription.is_waiting() && settled(users)
    }

    fn settled(&self, type_url: TypeUrl, snapshot: &Snapshot) -> bool {
        let subscription = self.of(type_url);
        !subscription.is_waiting() && !subscription.is_pending(Part::Break, snapshot.of(type_url))
    }

    fn send(&mut self, type_url: TypeUrl, part: Part, snapshot: &Snapshot, responses: &mut Vec<Response>) {
        let Some(draft) = self.subscriptions[type_url.index()].take(part, snapshot.of(type_url)) else { return };
        match type_url {
            TypeUrl::Cluster => self.warm(&draft, snapshot),
            TypeUrl::Listener | TypeUrl::Route => self.replaced += 1,
            TypeUrl::Endpoint | TypeUrl::Secret => (),
        }
        let response = self.response(Requested::Served(type_url), draft);
        self.subscriptions[type_url.index()].sent(response.nonce);
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

    fn response(&mut self, type_url: Requested, draft: Draft) -> Response {
        self.last_nonce += 1;
        let Draft { resources, removed, version, changed: _ } = draft;
        Response { type_url, nonce: Nonce(self.last_nonce), resources, removed, version }
    }
}
