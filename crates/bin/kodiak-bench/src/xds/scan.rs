//! Reading responses as they come, and of them only what a proxy must know to go on.
//!
//! Thousands of proxies share a machine with the control plane that is measured, so resources are not decoded: a field
//! of a response is looked at when it is there in full, and then forgotten.

/// The length of what stands before each gRPC message.
const HEADER: usize = 5;
/// Fields of this type have a length and bytes; all others are numbers.
const BYTES: u64 = 2;

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Field { number: u64, content: &'a [u8] },
    End,
}

/// Of one stream of gRPC messages.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    /// What begins a field that is not there in full.
    rest: Vec<u8>,
    /// Bytes of the message that were not looked at. `None` between messages.
    left: Option<usize>,
}

impl Scanner {
    pub(super) fn push(&mut self, piece: &[u8], each: impl FnMut(Part<'_>)) -> anyhow::Result<()> {
        if self.rest.is_empty() {
            let used = scan(piece, &mut self.left, each)?;
            self.rest.extend_from_slice(&piece[used..]);
        } else {
            self.rest.extend_from_slice(piece);
            let used = scan(&self.rest, &mut self.left, each)?;
            self.rest.drain(..used);
        }
        if self.rest.is_empty() {
            self.rest = Vec::new();
        }
        Ok(())
    }
}

/// How many bytes were used.
fn scan(bytes: &[u8], left: &mut Option<usize>, mut each: impl FnMut(Part<'_>)) -> anyhow::Result<usize> {
    let mut used = 0;
    loop {
        let rest = &bytes[used..];
        match *left {
            None => {
                let Some(header) = rest.get(..HEADER) else { return Ok(used) };
                anyhow::ensure!(header[0] == 0, "a response is compressed, which was not asked for");
                let length = header[1..].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
                *left = Some(length);
                used += HEADER;
            }
            Some(0) => {
                each(Part::End);
                *left = None;
            }
            Some(length) => {
                let Some((number, content, after)) = first(rest) else { return Ok(used) };
                let size = rest.len() - after.len();
                anyhow::ensure!(size <= length, "a field is longer than the response that it is in");
                each(Part::Field { number, content });
                *left = Some(length - size);
                used += size;
            }
        }
    }
}

/// The content of the first field of this number. Numbers have none.
pub(super) fn field(mut message: &[u8], wanted: u64) -> Option<&[u8]> {
    while let Some((number, content, after)) = first(message) {
        if number == wanted {
            return Some(content);
        }
        message = after;
    }
    None
}

/// The first field, and what comes after it; `None` when it is not there in full.
fn first(bytes: &[u8]) -> Option<(u64, &[u8], &[u8])> {
    let (tag, after) = varint(bytes)?;
    let (number, after) = (tag >> 3, after);
    let (length, after) = varint(after)?;
    if tag & 7 != BYTES {
        return Some((number, &[], after));
    }
    let length = usize::try_from(length).ok()?;
    let content = after.get(..length)?;
    Some((number, content, &after[length..]))
}

fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let last = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let value = bytes[..=last].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, &bytes[last + 1..]))
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::envoy::service::discovery::v3::{DeltaDiscoveryResponse, Resource};
    use prost::Message as _;

    use super::*;

    fn message(names: &[&str]) -> Vec<u8> {
        let resource =
            |name: &&str| Resource { name: (*name).to_owned(), version: "v".repeat(200), ..Resource::default() };
        let response = DeltaDiscoveryResponse {
            nonce: "7".to_owned(),
            resources: names.iter().map(resource).collect(),
            ..DeltaDiscoveryResponse::default()
        };
        let content = response.encode_to_vec();
        let length = u32::try_from(content.len()).unwrap();
        [&[0][..], &length.to_be_bytes(), &content].concat()
    }

    /// What is seen in these pieces: names, nonces and ends.
    fn seen(pieces: &[&[u8]]) -> Vec<String> {
        let (mut scanner, mut seen) = (Scanner::default(), Vec::new());
        for piece in pieces {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let each = |part: Part<'_>| {
                seen.push(match part {
                    Part::Field { number: 2, content } => text(field(content, 3).unwrap()),
                    Part::Field { number, content } => format!("{number}={}", text(content)),
                    Part::End => "end".to_owned(),
                });
            };
            scanner.push(piece, each).unwrap();
        }
        assert!(scanner.rest.is_empty());
        seen
    }

    #[test]
    fn responses_are_read_however_they_are_cut() {
        let stream = [message(&["one", "two"]), message(&[]), message(&["three"])].concat();
        let expected = ["one", "two", "5=7", "end", "5=7", "end", "three", "5=7", "end"];
        assert_eq!(seen(&[&stream]), expected);
        assert_eq!(seen(&stream.chunks(1).collect::<Vec<_>>()), expected);
        for at in 0..stream.len() {
            let (before, after) = stream.split_at(at);
            assert_eq!(seen(&[before, after]), expected, "cut at {at}");
        }
    }

    #[test]
    fn what_is_no_response_is_refused() {
        let mut scanner = Scanner::default();
        scanner.push(&[1, 0, 0, 0, 0], |_| ()).unwrap_err();
        let mut scanner = Scanner::default();
        scanner.push(&[0, 0, 0, 0, 2, 0x2a, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0], |_| ()).unwrap_err();
    }

    #[test]
    fn a_field_that_is_missing_is_not_found() {
        assert_eq!(field(&[0x08, 0x96, 0x01, 0x1a, 1, b'x'], 3), Some(&b"x"[..]));
        assert_eq!(field(&[0x1a, 1, b'x'], 2), None);
        assert_eq!(field(&[0x1a, 9], 3), None);
    }
}
