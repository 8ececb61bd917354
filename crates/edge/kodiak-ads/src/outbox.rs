//! Responses between the task that decides them and the connection that sends them.
//!
//! A response is held as references to shared resources. Its bytes are copied one frame at a time, when the client has
//! window for it; so a stream costs a frame, however long its responses are.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::vec;

use bytes::{BufMut as _, Bytes, BytesMut};
use kodiak_xds_stream::{Encoded, Response};
use prost::Message;
use tokio::sync::Notify;

use crate::proxies::Closing;
use crate::wire::Wire;

/// Default frame size of HTTP/2.
pub(crate) const FRAME: usize = 16 * 1024;

/// Unread responses after which the requests of a client are not read any more.
const MOST_RESPONSES: usize = 32;
/// The same for bytes that are not shared, such as names that do not exist.
const MOST_OWN_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    inside: Mutex<Inside>,
    /// A response was taken in full.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Inside {
    responses: VecDeque<Outgoing>,
    end: Option<Closing>,
    reader: Option<Waker>,
    /// Bytes taken since the last report.
    bytes: u64,
}

/// Next part for the connection to send.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Data(Bytes),
    End(Closing),
}

impl Outbox {
    /// `Err` for a response that is too long for a gRPC message.
    pub(crate) fn put<W: Wire>(&self, responses: Vec<Response>) -> Result<(), Closing> {
        let outgoing = responses.into_iter().map(Outgoing::new::<W>).collect::<Result<Vec<_>, _>>()?;
        let mut inside = self.inside();
        inside.responses.extend(outgoing);
        inside.wake();
        Ok(())
    }

    /// Adds a message of its own bytes.
    pub(crate) fn put_message(&self, message: &impl Message) -> Result<(), Closing> {
        let outgoing = Outgoing::framed(&message.encode_to_vec(), Vec::new(), |encoded| &encoded.delta)?;
        let mut inside = self.inside();
        inside.responses.push_back(outgoing);
        inside.wake();
        Ok(())
    }

    /// Ends the stream, after the responses in the outbox.
    pub(crate) fn end(&self, closing: Closing) {
        let mut inside = self.inside();
        inside.end = Some(closing);
        inside.wake();
    }

    /// Drops all responses of which nothing was sent.
    pub(crate) fn clear(&self) {
        let mut inside = self.inside();
        let begun = inside.responses.front().is_some_and(|first| first.begun);
        inside.responses.truncate(usize::from(begun));
    }

    /// For the one reader.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<Piece> {
        let mut inside = self.inside();
        let before = inside.responses.len();
        let frame = inside.frame();
        if !frame.is_empty() {
            inside.bytes += frame.len() as u64;
            if inside.responses.len() < before {
                self.taken.notify_one();
            }
            return Poll::Ready(Piece::Data(frame));
        }
        if let Some(closing) = &inside.end {
            return Poll::Ready(Piece::End(closing.clone()));
        }
        inside.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Waits until a response was taken in full, since the last wait.
    pub(crate) async fn response_taken(&self) {
        self.taken.notified().await;
    }

    /// Whether the client was sent everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.inside().responses.is_empty()
    }

    pub(crate) fn is_crowded(&self) -> bool {
        let inside = self.inside();
        let own: usize = inside.responses.iter().map(|response| response.own).sum();
        inside.responses.len() >= MOST_RESPONSES || own >= MOST_OWN_BYTES
    }

    /// Bytes taken since the last call.
    pub(crate) fn bytes(&self) -> u64 {
        std::mem::take(&mut self.inside().bytes)
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        // Every line leaves the state consistent, so a panic cannot leave it half changed.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn wake(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// The next bytes, at most a frame. Empty when there are none.
    fn frame(&mut self) -> Bytes {
        let mut frame = BytesMut::new();
        while let Some(response) = self.responses.front_mut() {
            // A long resource is sent without a copy.
            if frame.is_empty() && response.part().len() >= FRAME {
                let part = response.take(FRAME);
                self.drop_sent();
                return part;
            }
            frame.reserve(response.left.min(FRAME - frame.len()));
            while response.left > 0 && frame.len() < FRAME {
                frame.put(response.take(FRAME - frame.len()));
            }
            self.drop_sent();
            if frame.len() == FRAME {
                break;
            }
        }
        frame.freeze()
    }

    fn drop_sent(&mut self) {
        if self.responses.front().is_some_and(|response| response.left == 0) {
            self.responses.pop_front();
        }
    }
}

/// A response of which a part may have been taken.
#[derive(Debug)]
struct Outgoing {
    /// Part that is being sent: the head, or a resource.
    part: Bytes,
    rest: vec::IntoIter<Arc<Encoded>>,
    entry: fn(&Encoded) -> &Bytes,
    /// Bytes to be sent, of `part` and `rest`.
    left: usize,
    /// Bytes of the head, which no other response shares.
    own: usize,
    begun: bool,
}

impl Outgoing {
    /// Repeated fields of protobuf concatenate: the message without resources, followed by the encoded resources, is the
    /// message with resources.
    fn new<W: Wire>(response: Response) -> Result<Self, Closing> {
        Self::framed(&W::head(&response), response.resources, W::entry)
    }

    fn framed(head: &[u8], resources: Vec<Arc<Encoded>>, entry: fn(&Encoded) -> &Bytes) -> Result<Self, Closing> {
        let rest = resources.into_iter();
        let resources: usize = rest.as_slice().iter().map(|resource| entry(resource).len()).sum();
        let length = head.len() + resources;
        let Ok(prefix) = u32::try_from(length) else {
            let message = format!("a response of {length} bytes is too long for a gRPC message");
            return Err(Closing { code: Closing::RESOURCE_EXHAUSTED, message });
        };
        let mut part = BytesMut::with_capacity(5 + head.len());
        part.put_u8(0);
        part.put_u32(prefix);
        part.put_slice(head);
        let (own, left) = (part.len(), part.len() + resources);
        Ok(Self { part: part.freeze(), rest, entry, left, own, begun: false })
    }

    /// Rest of the head or of the next resource; empty only when everything is sent.
    fn part(&mut self) -> &Bytes {
        while self.part.is_empty()
            && let Some(resource) = self.rest.next()
        {
            self.part = (self.entry)(&resource).clone();
        }
        &self.part
    }

    fn take(&mut self, most: usize) -> Bytes {
        let length = self.part().len().min(most);
        self.begun = true;
        self.left -= length;
        self.part.split_to(length)
    }
}
