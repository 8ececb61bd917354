//! The requests of one stream.

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_xds_stream::Requested;
use prost::Message;

use crate::budget::{Budget, Reserved};
use crate::frames::{FrameError, Frames};
use crate::proxies::Closing;
use crate::wire::Wire;

/// Longest first request, read before the client is admitted. A client that reconnects lists its resources there: 30,000
/// and more.
const LONGEST_HELLO: u32 = 4 * 1024 * 1024;
const LONGEST: u32 = 16 * 1024 * 1024;
/// Longest resource name and type URL. Ours are far shorter.
const LONGEST_NAME: usize = 4096;

pub(crate) struct Requests {
    body: Incoming,
    frames: Frames,
    /// `Some` until the client is admitted.
    budget: Option<Budget>,
    reserved: Reserved,
}

pub(crate) struct Received<R> {
    /// In the first request of a stream, and perhaps in others.
    pub(crate) node: Option<Node>,
    pub(crate) type_url: Requested,
    pub(crate) request: R,
}

impl Requests {
    pub(crate) fn new(body: Incoming, budget: Budget) -> Self {
        Self { body, frames: Frames::new(LONGEST_HELLO), budget: Some(budget), reserved: None }
    }

    /// The client is authenticated from now on.
    pub(crate) fn trust(&mut self) {
        self.bound(LONGEST);
    }

    /// The client is admitted from now on, and its requests may have this length.
    pub(crate) fn bound(&mut self, longest: u32) {
        (self.budget, self.reserved) = (None, None);
        self.frames.set_limit(longest);
    }

    /// `None` at the end of the stream. Cancel-safe.
    pub(crate) async fn next<W: Wire>(&mut self) -> Result<Option<Received<W::Request>>, Closing> {
        self.message().await?.map(read::<W>).transpose()
    }

    /// The same for messages of any type.
    pub(crate) async fn message<M: Message + Default>(&mut self) -> Result<Option<M>, Closing> {
        loop {
            if let Some(message) = self.frames.next()? {
                return M::decode(message)
                    .map(Some)
                    .map_err(|error| invalid(&format!("failed to decode the request: {error}")));
            }
            // `next` has rejected lengths above the limit. While this waits, nothing more is read.
            if let (Some(budget), None, Some(length)) = (&self.budget, &self.reserved, self.frames.announced()) {
                self.reserved = budget.reserve(length).await;
            }
            match self.body.frame().await {
                None => {
                    self.frames.finish()?;
                    return Ok(None);
                }
                // The stream was reset, or its connection is closed.
                Some(Err(_)) => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(piece) = frame.into_data() {
                        self.frames.push(&piece);
                    }
                }
            }
        }
    }
}

fn read<W: Wire>(mut message: W::Message) -> Result<Received<W::Request>, Closing> {
    let node = W::node(&mut message);
    if W::type_url(&message).len() > LONGEST_NAME {
        return Err(invalid(&format!("the type URL is longer than {LONGEST_NAME} bytes")));
    }
    let type_url = Requested::from_wire(W::type_url(&message));
    let request = W::read(message);
    if W::named(&request).any(|name| name.len() > LONGEST_NAME) {
        return Err(invalid(&format!("a resource name is longer than {LONGEST_NAME} bytes")));
    }
    Ok(Received { node, type_url, request })
}

pub(crate) fn invalid(message: &str) -> Closing {
    Closing { code: Closing::INVALID_ARGUMENT, message: message.to_owned() }
}

impl From<FrameError> for Closing {
    fn from(error: FrameError) -> Self {
        let code = match error {
            FrameError::Compressed => Self::UNIMPLEMENTED,
            FrameError::TooLong { .. } => Self::RESOURCE_EXHAUSTED,
            FrameError::Flag(_) | FrameError::Partial => Self::INVALID_ARGUMENT,
        };
        Self { code, message: error.to_string() }
    }
}
