//! The requests of one stream.

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_xds_stream::Requested;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use prost::{DecodeError, Message};

use crate::budget::{Budget, Reserved};
use crate::frames::{FrameError, Frames};
use crate::proxies::Closing;
use crate::wire::Wire;

/// Longest first request of a stream, read before the client is admitted.
const LONGEST_HELLO: u32 = 4 * 1024 * 1024;
/// Longest request of a discovery stream, the first one included: a client that reconnects lists its resources there, with
/// about 100 bytes each. Its headers have shown a credential before any of it is buffered, and requests of clients that
/// are not admitted share a budget.
const LONGEST: u32 = 32 * 1024 * 1024;
/// Fields of a discovery request: each resource comes once as a name and once with a version. Counted before they are
/// decoded, because an empty name takes 2 bytes in the request and 24 in memory.
const MOST_FIELDS: usize = 2 * MOST_NAMES + 100;
/// Names that a stream may subscribe to.
pub(crate) const MOST_NAMES: usize = 100_000;
/// Bytes of a discovery request that are not names: `node`, which may hold a Dataplane, and the error of a rejection.
const MOST_BYTES_BESIDE: usize = 2 * 1024 * 1024;
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

    /// Requests may list resources, already the first one.
    pub(crate) fn expect_resources(&mut self) {
        self.frames.set_limit(LONGEST);
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
        let Some(bytes) = self.bytes().await? else { return Ok(None) };
        check_fields(&bytes)?;
        read::<W>(decode(bytes)?).map(Some)
    }

    /// The same for messages of any type.
    pub(crate) async fn message<M: Message + Default>(&mut self) -> Result<Option<M>, Closing> {
        self.bytes().await?.map(decode).transpose()
    }

    async fn bytes(&mut self) -> Result<Option<Bytes>, Closing> {
        loop {
            if let Some(message) = self.frames.next()? {
                return Ok(Some(message));
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

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Closing> {
    M::decode(bytes).map_err(|error| undecodable(&error))
}

fn undecodable(error: &DecodeError) -> Closing {
    invalid(&format!("failed to decode the request: {error}"))
}

/// Bounds the memory that decoding takes.
fn check_fields(mut message: &[u8]) -> Result<(), Closing> {
    let (mut fields, mut beside) = (0, 0);
    while !message.is_empty() {
        let (tag, wire_type) = decode_key(&mut message).map_err(|error| undecodable(&error))?;
        let before = message.len();
        skip_field(wire_type, tag, &mut message, DecodeContext::default()).map_err(|error| undecodable(&error))?;
        let length = before - message.len();
        // A name with a version is the longest field that may come often.
        beside += if length > 2 * LONGEST_NAME { length } else { 0 };
        if beside > MOST_BYTES_BESIDE {
            return Err(invalid(&format!("`node` and `error_detail` are longer than {MOST_BYTES_BESIDE} bytes")));
        }
        fields += 1;
        if fields > MOST_FIELDS {
            let message = format!("the request lists more than {MOST_NAMES} resources");
            return Err(Closing { code: Closing::RESOURCE_EXHAUSTED, message });
        }
    }
    Ok(())
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
