//! The interface that the two protocols share, for one type on one stream.

use std::sync::Arc;

use crate::message::Nonce;
use crate::resource::{Encoded, Resources, Version};
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

/// How much of the difference may be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Only resources that the client requested and waits for.
    Owed,
    /// Those, and new and changed resources; removals too, for types that nothing references (`TypeUrl::removed_last`).
    Make,
    /// Everything, including removals.
    Break,
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

    /// Whether `take` would return a response.
    fn is_pending(&self, part: Part, target: &Resources) -> bool;

    /// The response that brings the client to this part of `target`. It counts as sent from then on.
    fn take(&mut self, part: Part, target: &Resources) -> Option<Draft>;

    /// Sends these once more, as far as the client requested them and they exist.
    fn resend(&mut self, names: &[Arc<str>], target: &Resources);

    /// The response of `take` was sent with this nonce.
    fn sent(&mut self, nonce: Nonce);

    /// Answer to a request for an unsupported type, if the client waits for one.
    fn refuse(request: &Self::Request) -> Option<Draft>;
}
