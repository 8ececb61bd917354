//! Streams as short texts, for tests: `cds a1 b2 -c` is a response with clusters `a` and `b` in versions 1 and 2 and
//! the removal of `c`; `cds a1 b1 / eds a1` is a snapshot, or two responses. In a snapshot, `l1>a>b` is a listener or a
//! route that refers to clusters `a` and `b`, or a cluster that refers to these secrets, and `l1+r` a listener that refers
//! to route `r`. A cluster also refers to its endpoints.

mod envoy;
mod model;
mod order;
mod properties;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::message::{Nonce, Response};
use crate::resource::{Encoded, Need, Snapshot, Version};
use crate::stream::{Event, Stream};
use crate::subscription::Subscription;
use crate::type_url::{Requested, TypeUrl};
use crate::{delta, sotw};

pub(crate) use TypeUrl::{Cluster as CDS, Endpoint as EDS, Listener as LDS, Route as RDS, Secret as SDS};

/// A stream with a client that remembers the last nonce and version of each type.
pub(crate) struct Peer<S> {
    pub(crate) stream: Stream<S>,
    nonces: BTreeMap<TypeUrl, Nonce>,
    sent: BTreeMap<TypeUrl, Version>,
    names: BTreeMap<TypeUrl, String>,
    taken: BTreeMap<TypeUrl, Version>,
}

pub(crate) fn delta() -> Peer<delta::Subscription> {
    Peer::new()
}

pub(crate) fn sotw() -> Peer<sotw::Subscription> {
    Peer::new()
}

impl<S: Subscription> Peer<S> {
    fn new() -> Self {
        let (nonces, sent) = (BTreeMap::new(), BTreeMap::new());
        Self { stream: Stream::default(), nonces, sent, names: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// With a snapshot, before any request.
    pub(crate) fn with(mut self, text: &str) -> Self {
        assert_eq!(self.snapshot(text), "");
        self
    }

    pub(crate) fn snapshot(&mut self, text: &str) -> String {
        self.on(Event::Snapshot(snapshot(text)))
    }

    pub(crate) fn nonce(&self, type_url: TypeUrl) -> Nonce {
        self.nonces[&type_url]
    }

    pub(crate) fn request(&mut self, type_url: TypeUrl, request: S::Request) -> String {
        self.on(Event::Request(Requested::Served(type_url), request))
    }

    pub(crate) fn on(&mut self, event: Event<S::Request>) -> String {
        let responses = self.stream.on(event);
        for response in &responses {
            if let Requested::Served(type_url) = response.type_url {
                self.nonces.insert(type_url, response.nonce);
                self.sent.extend(response.version.map(|version| (type_url, version)));
            }
        }
        responses.iter().map(show).collect::<Vec<_>>().join(" / ")
    }
}

impl Peer<delta::Subscription> {
    /// `a` subscribes, `-a` unsubscribes, `a@1` reports `a` in version 1.
    pub(crate) fn ask(&mut self, type_url: TypeUrl, text: &str) -> String {
        self.request(type_url, delta_request(text))
    }

    pub(crate) fn ack(&mut self, type_url: TypeUrl) -> String {
        let nonce = Some(self.nonce(type_url));
        self.request(type_url, delta::Request { nonce, ..delta::Request::default() })
    }

    pub(crate) fn nack(&mut self, type_url: TypeUrl, error: &str) -> String {
        let nonce = Some(self.nonce(type_url));
        self.request(type_url, delta::Request { nonce, error: Some(error.into()), ..delta::Request::default() })
    }
}

impl Peer<sotw::Subscription> {
    /// Requests these names from now on, in a request that acknowledges the last response.
    pub(crate) fn ask(&mut self, type_url: TypeUrl, names: &str) -> String {
        self.names.insert(type_url, names.to_owned());
        if self.nonces.contains_key(&type_url) { self.ack(type_url) } else { self.answer(type_url, None) }
    }

    /// Requests like a reconnected client that has this version.
    pub(crate) fn resume(&mut self, type_url: TypeUrl, names: &str, version: Version) -> String {
        self.taken.insert(type_url, version);
        self.ask(type_url, names)
    }

    pub(crate) fn ack(&mut self, type_url: TypeUrl) -> String {
        self.taken.insert(type_url, self.sent[&type_url]);
        self.answer(type_url, None)
    }

    pub(crate) fn nack(&mut self, type_url: TypeUrl, error: &str) -> String {
        self.answer(type_url, Some(error.into()))
    }

    pub(crate) fn version(&self, type_url: TypeUrl) -> Version {
        self.sent[&type_url]
    }

    fn answer(&mut self, type_url: TypeUrl, error: Option<Arc<str>>) -> String {
        let names = self.names[&type_url].split_whitespace().map(Arc::from).collect();
        let nonce = self.nonces.get(&type_url).copied();
        let version = self.taken.get(&type_url).copied();
        self.request(type_url, sotw::Request { names, version, nonce, error })
    }
}

pub(crate) fn delta_request(text: &str) -> delta::Request {
    let mut request = delta::Request::default();
    for word in text.split_whitespace() {
        if let Some((name, version)) = word.split_once('@') {
            request.initial.push((name.into(), version.parse().ok().map(Version)));
        } else if let Some(name) = word.strip_prefix('-') {
            request.unsubscribe.push(name.into());
        } else {
            request.subscribe.push(word.into());
        }
    }
    request
}

pub(crate) fn snapshot(text: &str) -> Arc<Snapshot> {
    let mut snapshot = Snapshot::default();
    for part in text.split('/') {
        let mut words = part.split_whitespace();
        let Some(type_url) = words.next() else { continue };
        let type_url = TypeUrl::ALL.into_iter().find(|each| short(*each) == type_url).unwrap();
        for word in words {
            let (name, rest) = word.split_at(1);
            let (version, needs) = rest.split_at(rest.find(['>', '+']).unwrap_or(rest.len()));
            let used = if type_url == CDS { SDS } else { CDS };
            let needs = needs.as_bytes().chunks(2).map(|need| {
                let kind = if need[0] == b'+' { RDS } else { used };
                (kind, char::from(need[1]).to_string().into())
            });
            let own = (type_url == CDS).then(|| (EDS, name.into()));
            let needs = needs.chain(own).collect();
            snapshot.resources.insert(type_url, referring(name, version.parse().unwrap(), needs));
        }
    }
    Arc::new(snapshot)
}

pub(crate) fn resource(name: &str, version: u128) -> Arc<Encoded> {
    referring(name, version, Box::default())
}

pub(crate) fn referring(name: &str, version: u128, needs: Box<[Need]>) -> Arc<Encoded> {
    Arc::new(Encoded { name: name.into(), version: Version(version), needs, delta: Bytes::new(), sotw: Bytes::new() })
}

fn show(response: &Response) -> String {
    let type_url = match &response.type_url {
        Requested::Served(type_url) => short(*type_url).to_owned(),
        Requested::Unknown(type_url) => type_url.to_string(),
    };
    let resources = response.resources.iter().map(|each| format!("{}{}", each.name, each.version.0));
    let removed = response.removed.iter().map(|name| format!("-{name}"));
    std::iter::once(type_url).chain(resources).chain(removed).collect::<Vec<_>>().join(" ")
}

fn short(type_url: TypeUrl) -> &'static str {
    match type_url {
        CDS => "cds",
        EDS => "eds",
        LDS => "lds",
        RDS => "rds",
        SDS => "sds",
    }
}
