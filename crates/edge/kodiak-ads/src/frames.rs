//! Decodes gRPC messages from the bytes of a request body.
//!
//! A message is one byte with the compression flag, four bytes of length, and the content.
//!
//! **Invariant:** buffers at most one message and the last piece of the body: the caller takes all complete messages before
//! the next push.

use bytes::{Buf as _, Bytes, BytesMut};

const HEADER: usize = 5;

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum FrameError {
    #[error("the request is compressed; send it without grpc-encoding")]
    Compressed,
    #[error("the compression flag of the request is {0}; gRPC allows 0 or 1")]
    Flag(u8),
    #[error("the request has {length} bytes; at most {limit} are allowed")]
    TooLong { length: u32, limit: u32 },
    #[error("the stream ended within a request")]
    Partial,
}

#[derive(Debug)]
pub(crate) struct Frames {
    buffer: BytesMut,
    /// Longest message that is accepted.
    limit: u32,
}

impl Frames {
    pub(crate) fn new(limit: u32) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    pub(crate) fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        self.buffer.extend_from_slice(piece);
    }

    /// The next complete message.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, FrameError> {
        match self.buffer.first() {
            None => return Ok(None),
            Some(0) => (),
            Some(1) => return Err(FrameError::Compressed),
            Some(flag) => return Err(FrameError::Flag(*flag)),
        }
        let Some(length) = self.buffer.get(1..HEADER).and_then(|bytes| bytes.try_into().ok()) else { return Ok(None) };
        let (length, limit) = (u32::from_be_bytes(length), self.limit);
        if length > limit {
            return Err(FrameError::TooLong { length, limit });
        }
        let whole = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(HEADER);
        if self.buffer.len() < whole {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(whole).freeze();
        message.advance(HEADER);
        if self.buffer.is_empty() {
            // A stream is idle most of the time; then it uses no memory.
            self.buffer = BytesMut::new();
        }
        Ok(Some(message))
    }

    /// Length of the current message, once its header has arrived.
    pub(crate) fn announced(&self) -> Option<usize> {
        let length = self.buffer.get(1..HEADER).and_then(|bytes| bytes.try_into().ok())?;
        usize::try_from(u32::from_be_bytes(length)).ok()
    }

    /// Whether the stream may end here.
    pub(crate) fn finish(&self) -> Result<(), FrameError> {
        if self.buffer.is_empty() { Ok(()) } else { Err(FrameError::Partial) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: u32 = 10;

    fn message(content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap();
        [&[0][..], &length.to_be_bytes(), content].concat()
    }

    /// Messages in these pieces, and the result at the end.
    fn read(pieces: &[&[u8]]) -> (Vec<Bytes>, Result<(), FrameError>) {
        let mut frames = Frames::new(LIMIT);
        let mut messages = Vec::new();
        for piece in pieces {
            frames.push(piece);
            loop {
                match frames.next() {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(error) => return (messages, Err(error)),
                }
            }
        }
        (messages, frames.finish())
    }

    #[test]
    fn messages_are_decoded_however_they_are_split() {
        let stream = [message(b"one"), message(b""), message(b"ten bytes!")].concat();
        let expected: Vec<Bytes> = ["one", "", "ten bytes!"].map(Bytes::from).into();
        assert_eq!(read(&[&stream]), (expected.clone(), Ok(())));
        let single: Vec<_> = stream.chunks(1).collect();
        assert_eq!(read(&single), (expected.clone(), Ok(())));
        for at in 0..stream.len() {
            let (left, right) = stream.split_at(at);
            assert_eq!(read(&[left, right]), (expected.clone(), Ok(())), "cut at {at}");
        }
    }

    #[test]
    fn invalid_frames_are_rejected() {
        let cut = &message(b"one")[..7];
        for (stream, error) in [
            (&[1, 0, 0, 0, 1, 7][..], FrameError::Compressed),
            (&[1], FrameError::Compressed),
            (&[2, 0, 0, 0, 0], FrameError::Flag(2)),
            (&[0, 0, 0, 0, 11], FrameError::TooLong { length: 11, limit: LIMIT }),
            (&[0, 255, 255, 255, 255], FrameError::TooLong { length: u32::MAX, limit: LIMIT }),
            (&[0, 0, 0], FrameError::Partial),
            (cut, FrameError::Partial),
        ] {
            assert_eq!(read(&[stream]), (Vec::new(), Err(error)), "{stream:?}");
        }
    }

    #[test]
    fn messages_before_an_invalid_frame_are_decoded() {
        let stream = [&message(b"one")[..], &[9]].concat();
        assert_eq!(read(&[&stream]), (vec![Bytes::from("one")], Err(FrameError::Flag(9))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_rejected_however_they_are_split(
            stream in prop::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..60),
            cuts in prop::collection::vec(1..9_usize, 1..9),
        ) {
            let (mut rest, mut pieces) = (&stream[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (piece, after) = rest.split_at((*cut).min(rest.len()));
                pieces.push(piece);
                rest = after;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(read(&pieces), read(&[&stream]));
        }
    }

    #[test]
    fn no_memory_is_used_between_messages() {
        let mut frames = Frames::new(LIMIT);
        frames.push(&message(b"one"));
        frames.next().unwrap();
        assert_eq!(frames.buffer.capacity(), 0);
    }
}
