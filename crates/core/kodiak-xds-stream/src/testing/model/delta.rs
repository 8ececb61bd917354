//! A client of the incremental protocol.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::{Holds, Interest, Op};
use crate::delta::{Request, Subscription};
use crate::message::Response;
use crate::resource::Version;
use crate::stream::{Event, Stream};
use crate::type_url::{Requested, TypeUrl};

#[derive(Default)]
pub(crate) struct Client {
    pub(crate) stream: Stream<Subscription>,
    has_snapshot: Option<Arc<crate::Snapshot>>,
    pub(crate) interest: [Interest; TypeUrl::COUNT],
    pub(crate) holds: [Holds; TypeUrl::COUNT],
    started: BTreeSet<TypeUrl>,
    unread: VecDeque<Response>,
    /// Resources that the client has, or will have when it has read everything; `None` was reported as missing.
    delivered: BTreeMap<(TypeUrl, Arc<str>), Option<Version>>,
}

impl Client {
    pub(crate) fn apply(&mut self, op: &Op) {
        match op {
            Op::Snapshot(snapshot) => {
                self.has_snapshot = Some(snapshot.clone());
                self.on(Event::Snapshot(snapshot.clone()), &[]);
            }
            Op::Step => self.step(),
            Op::Subscribe(type_url, name) => {
                self.interest[type_url.index()].add(name);
                let legacy = *name == "*" && type_url.is_whole() && !self.started.contains(type_url);
                let subscribe = if legacy { vec![] } else { vec![Arc::from(*name)] };
                self.ask(*type_url, Request { subscribe, ..Request::default() });
            }
            Op::Unsubscribe(type_url, name) if self.started.contains(type_url) => {
                let interest = &mut self.interest[type_url.index()];
                interest.drop(name);
                let interest = interest.clone();
                self.holds[type_url.index()].retain(|name, _| interest.covers(name));
                self.delivered.retain(|(each, name), _| each != type_url || interest.covers(name));
                self.ask(*type_url, Request { unsubscribe: vec![Arc::from(*name)], ..Request::default() });
            }
            Op::Unsubscribe(..) => (),
            Op::Reconnect => _ = self.reconnect(),
        }
    }

    /// Reads and answers until no response is left.
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
        self.started.clear();
        self.delivered.clear();
        if let Some(snapshot) = self.has_snapshot.clone() {
            self.on(Event::Snapshot(snapshot), &[]);
        }
        for type_url in TypeUrl::ALL {
            let interest = self.interest[type_url.index()].clone();
            if interest.any() {
                let star = interest.wildcard.then(|| Arc::from("*"));
                let subscribe = star.into_iter().chain(interest.names).collect();
                let initial: Vec<_> =
                    self.holds[type_url.index()].iter().map(|(name, version)| (name.clone(), Some(*version))).collect();
                self.delivered.extend(initial.iter().map(|(name, version)| ((type_url, name.clone()), *version)));
                self.ask(type_url, Request { subscribe, initial, ..Request::default() });
            }
        }
        self.unread.iter().cloned().collect()
    }

    fn ask(&mut self, type_url: TypeUrl, request: Request) {
        self.started.insert(type_url);
        let wildcard = (request.subscribe.is_empty() && request.unsubscribe.is_empty() && request.nonce.is_none())
            || request.subscribe.iter().any(|name| **name == *"*");
        let resumes = !request.initial.is_empty();
        let owed: Vec<_> =
            request.subscribe.iter().chain(&request.unsubscribe).map(|name| (type_url, name.clone())).collect();
        if wildcard && !resumes {
            self.delivered.retain(|(each, _), _| *each != type_url);
        }
        let asked: Vec<_> = request.subscribe.clone();
        let responses = self.on(Event::Request(Requested::Served(type_url), request), &owed);
        if self.has_snapshot.is_some() && !resumes {
            let of_type = || responses.iter().filter(|each| each.type_url == Requested::Served(type_url));
            assert!(!wildcard || of_type().next().is_some(), "a wildcard is answered");
            for name in asked.iter().filter(|name| ***name != *"*") {
                let mut answers = of_type();
                let answered = answers.any(|each| {
                    each.removed.contains(name) || each.resources.iter().any(|resource| resource.name == *name)
                });
                assert!(answered, "{name} is answered");
            }
        }
    }

    fn step(&mut self) {
        let Some(response) = self.unread.pop_front() else { return };
        let Requested::Served(type_url) = response.type_url else { unreachable!("we ask for known types") };
        let (holds, interest) = (&mut self.holds[type_url.index()], &self.interest[type_url.index()]);
        for name in &response.removed {
            holds.remove(name);
        }
        let error = super::take(holds, interest, &response.resources);
        let answer = Request { nonce: Some(response.nonce), error, ..Request::default() };
        self.on(Event::Request(Requested::Served(type_url), answer), &[]);
    }

    /// `owed` are the names that this request asks for.
    fn on(&mut self, event: Event<Request>, owed: &[(TypeUrl, Arc<str>)]) -> Vec<Response> {
        let begins_endpoints = matches!(&event, Event::Request(Requested::Served(TypeUrl::Endpoint), request)
            if request.nonce.is_none());
        let responses = self.stream.on(event);
        let mut warming = BTreeSet::new();
        for response in &responses {
            let Requested::Served(type_url) = response.type_url else { unreachable!("we ask for known types") };
            let endpoints = type_url == TypeUrl::Endpoint;
            for resource in &response.resources {
                let key = (type_url, resource.name.clone());
                let due = owed.contains(&key) || (endpoints && (begins_endpoints || warming.contains(&resource.name)));
                let before = self.delivered.insert(key, Some(resource.version)).flatten();
                assert!(due || before != Some(resource.version), "{} is sent twice", resource.name);
                if type_url == TypeUrl::Cluster {
                    warming.insert(resource.name.clone());
                }
            }
            for name in &response.removed {
                let key = (type_url, name.clone());
                let due = owed.contains(&key) || self.delivered.get(&key) != Some(&None);
                assert!(due, "the removal of {name} is sent twice");
                self.delivered.insert(key, None);
            }
        }
        self.unread.extend(responses.iter().cloned());
        responses
    }
}
