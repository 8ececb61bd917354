//! The interface that the two protocols share, for one type on one stream.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::message::Nonce;
use crate::resource::{Encoded, Need, Resources, Version};
use crate::type_url::TypeUrl;

/// The name that requests all resources.
pub const WILDCARD: &str = "*";

/// Answer of a request to an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    None,
    /// ACK. It also covers this number of older responses, because a client answers in order.
    Acknowledged {
        older: u64,
    },
    /// NACK with the client's error. The older responses count as acknowledged.
    Rejected {
        older: u64,
        error: Arc<str>,
    },
}

/// State of a resource at the client, as far as responses and requests tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    Nothing,
    Sent(Arc<Encoded>),
    /// From an earlier stream, so only its version is known.
    Reported(Version),
    /// It may have a version that this server does not know.
    Foreign,
}

impl Held {
    pub fn version(&self) -> Option<Version> {
        match self {
            Self::Sent(resource) => Some(resource.version),
            Self::Reported(version) => Some(*version),
            Self::Nothing | Self::Foreign => None,
        }
    }

    /// Resources that it refers to; `None` if they are unknown.
    pub fn needs(&self) -> Option<&[Need]> {
        match self {
            Self::Nothing => Some(&[]),
            Self::Sent(resource) => Some(&resource.needs),
            Self::Reported(_) | Self::Foreign => None,
        }
    }
}

/// How much of the difference may be sent now.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// Only resources that the client requested and waits for.
    Owed,
    /// Those, and all that differs except for these names. What the client waits for is sent nevertheless.
    AllBut(&'a BTreeSet<Arc<str>>),
}

/// A response without its nonce.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Draft {
    pub resources: Vec<Arc<Encoded>>,
    pub removed: Vec<Arc<str>>,
    pub version: Option<Version>,
    /// Names in `resources` that the client did not have in this version.
    pub changed: Vec<Arc<str>>,
}

/// One type on one stream. `crate::Stream` decides when each part may be sent.
pub trait Subscription {
    type Request;

    fn new(type_url: TypeUrl) -> Self;

    /// Handles a request; `target` is the snapshot, if there is one yet.
    fn request(&mut self, request: Self::Request, target: Option<&Resources>) -> Answer;

    /// Whether the client ever requested this type.
    fn is_active(&self) -> bool;

    /// Whether the client requested this resource, by its name or with all others.
    fn requests(&self, name: &str) -> bool;

    /// Number of names that are stored for the client.
    fn names(&self) -> usize;

    /// Whether a response waits for its answer.
    fn is_waiting(&self) -> bool;

    /// Whether a response that changed this resource waits for its answer.
    fn awaits(&self, name: &str) -> bool;

    /// Whether every response up to this one is answered.
    fn is_answered(&self, nonce: Nonce) -> bool;

    /// Whether the client waits for a response.
    fn owes(&self) -> bool;

    /// Requested resources that the client has in another version than `target`, lacks, or has too many of. A name may
    /// come twice.
    fn differing<'a>(&'a self, target: &'a Resources) -> Box<dyn Iterator<Item = &'a Arc<str>> + 'a>;

    fn held(&self, name: &str) -> Held;

    /// The response that brings the client to this part of `target`. It counts as sent from then on.
    fn take(&mut self, part: Part<'_>, target: &Resources) -> Option<Draft>;

    /// Sends these once more, as far as the client requested them and they exist.
    fn resend(&mut self, names: &[Arc<str>], target: &Resources);

    /// The response of `take`, with these changed resources, was sent with this nonce.
    fn sent(&mut self, nonce: Nonce, changed: Vec<Arc<str>>);

    /// Answer to a request for an unsupported type, if the client waits for one.
    fn refuse(request: &Self::Request) -> Option<Draft>;
}
