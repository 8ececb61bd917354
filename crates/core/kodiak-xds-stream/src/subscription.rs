//! What the two protocols have in common, for one type on one stream.

use std::sync::Arc;

use crate::message::Nonce;
use crate::resource::{Encoded, Resources, Version};
use crate::type_url::TypeUrl;

/// The name that asks for everything.
pub const WILDCARD: &str = "*";

/// What a request says about an earlier response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    None,
    Acknowledged,
    /// With the client's message.
    Rejected(Arc<str>),
}

/// How much of the difference may go out now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Only what the client asked for and waits for.
    Owed,
    /// That, and new and changed resources; removals too, where nothing refers to the type (`TypeUrl::removed_last`).
    Make,
    /// Everything, removals included.
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

/// One type on one stream. `crate::Stream` decides when each part may go out.
pub trait Subscription {
    type Request;

    fn new(type_url: TypeUrl) -> Self;

    /// Takes in a request; `target` is the snapshot, if there is one yet.
    fn request(&mut self, request: Self::Request, target: Option<&Resources>) -> Answer;

    /// Whether the client ever asked for this type.
    fn is_active(&self) -> bool;

    /// How many names are kept because the client gave them.
    fn names(&self) -> usize;

    /// Whether a response waits for its answer.
    fn is_waiting(&self) -> bool;

    /// Whether `take` would give something.
    fn is_pending(&self, part: Part, target: &Resources) -> bool;

    /// What to send so that this part of `target` is with the client. From then on it counts as sent.
    fn take(&mut self, part: Part, target: &Resources) -> Option<Draft>;

    /// Has these sent once more, as far as the client asked for them and they exist.
    fn resend(&mut self, names: &[Arc<str>], target: &Resources);

    /// What `take` gave was sent under this nonce.
    fn sent(&mut self, nonce: Nonce);

    /// The answer to a request for a type that we do not serve, if it waits for one.
    fn refuse(request: &Self::Request) -> Option<Draft>;
}
