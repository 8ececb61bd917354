//! A client of the state-of-the-world protocol.
//!
//! It changes its names only when it has read everything: the protocol cannot express that a client drops a name and
//! requests it again while a response is in flight. It accepts or rejects a full set as a whole: it reports the version
//! of the last one that it accepted, and cannot report that it accepted a part of another.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Holds, Interest, Op};
use crate::message::{Nonce, Response};
use crate::resource::{Snapshot, Version};
use crate::sotw::{Request, Subscription};
use crate::stream::{Event, Stream};
use crate::type_url::{Requested, TypeUrl};

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) stream: Stream<Subscription>,
    snapshot: Option<Arc<Snapshot>>,
    pub(crate) interest: [Interest; TypeUrl::COUNT],
    pub(crate) holds: [Holds; TypeUrl::COUNT],
    nonces: [Option<Nonce>; TypeUrl::COUNT],
    taken: [Option<Version>; TypeUrl::COUNT],
    unread: VecDeque<Response>,
    /// The last response of each type that has full sets.
    last: [Option<Response>; TypeUrl::COUNT],
}

impl Client {
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Snapshot(snapshot) => {
                self.snapshot = Some(snapshot.clone());
                self.on(Event::Snapshot(snapshot.clone()), false);
            }
            Op::Step => self.step(),
            Op::Subscribe(type_url, name) => {
                self.drain();
                let before = self.interest[type_url.index()].clone();
                self.interest[type_url.index()].add(name);
                let widens = (before.wildcard, &before.names)
                    != (self.interest[type_url.index()].wildcard, &self.interest[type_url.index()].names);
                let responses = self.ask(*type_url, None);
                let of_type = responses.iter().any(|each| each.type_url == Requested::Served(*type_url));
                assert!(of_type || !widens || self.snapshot.is_none(), "{name} is answered");
            }
            Op::Unsubscribe(type_url, name) => {
                self.drain();
                let interest = &mut self.interest[type_url.index()];
                if interest.any() {
                    interest.drop(name);
                    let interest = interest.clone();
                    if !interest.wildcard {
                        // Otherwise it would report after a reconnect that it has the resources it dropped.
                        self.taken[type_url.index()] = None;
                    }
                    self.holds[type_url.index()].retain(|name, _| interest.covers(name));
                    self.ask(*type_url, None);
                }
            }
            Op::Reconnect => _ = self.reconnect(),
        }
    }

    pub(crate) fn drain(&mut self) {
        for _ in 0..1000 {
            if self.unread.is_empty() {
                return;
            }
            self.step();
        }
        panic!("the stream never comes to rest");
    }

    /// Requests everything again on a new stream; returns the immediate responses.
    pub(crate) fn reconnect(&mut self) -> Vec<Response> {
        self.stream = Stream::default();
        self.unread.clear();
        self.nonces = Default::default();
        self.last = Default::default();
        if let Some(snapshot) = self.snapshot.clone() {
            self.on(Event::Snapshot(snapshot), false);
        }
        for type_url in TypeUrl::ALL {
            if self.interest[type_url.index()].any() {
                self.ask(type_url, None);
            }
        }
        self.unread.iter().cloned().collect()
    }

    fn ask(&mut self, type_url: TypeUrl, error: Option<Arc<str>>) -> Vec<Response> {
        let interest = &self.interest[type_url.index()];
        let star = interest.wildcard.then(|| Arc::from("*"));
        let names = star.into_iter().chain(interest.names.iter().cloned()).collect();
        let (nonce, version) = (self.nonces[type_url.index()], self.taken[type_url.index()]);
        let asks = error.is_none();
        self.on(Event::Request(Requested::Served(type_url), Request { names, version, nonce, error }), asks)
    }

    fn step(&mut self) {
        let Some(response) = self.unread.pop_front() else { return };
        let Requested::Served(type_url) = response.type_url else { unreachable!("we ask for known types") };
        let mut holds = self.holds[type_url.index()].clone();
        if type_url.is_whole() {
            let named: BTreeSet<_> = response.resources.iter().map(|resource| &resource.name).collect();
            holds.retain(|name, _| named.contains(name));
        }
        let error = super::take(&mut holds, &self.interest[type_url.index()], &response.resources);
        if error.is_none() || !type_url.is_whole() {
            self.holds[type_url.index()] = holds;
        }
        self.nonces[type_url.index()] = Some(response.nonce);
        if error.is_none() {
            self.taken[type_url.index()] = response.version;
        }
        self.ask(type_url, error);
    }

    /// `asks` when names may have changed, so that a full set may be sent again.
    fn on(&mut self, event: Event<Request>, asks: bool) -> Vec<Response> {
        let responses = self.stream.on(event);
        for response in &responses {
            let Requested::Served(type_url) = response.type_url else { unreachable!("we ask for known types") };
            let last = self.last[type_url.index()].replace(response.clone());
            let again = last.is_some_and(|last| last.resources == response.resources);
            assert!(asks || !again || !type_url.is_whole(), "a full set is sent twice");
        }
        self.unread.extend(responses.iter().cloned());
        responses
    }
}
