//! Lines in the pipe, which arrive in pieces.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;

/// Longest line. Headers in it are limited by Envoy to 60 KiB by default.
const MAX_LINE: usize = 1 << 20;

/// A message for a TCP server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) address: String,
    /// Ends with a line break.
    pub(super) message: Bytes,
}

/// Collects pieces into lines.
#[derive(Default)]
pub(super) struct Splitter {
    /// Beginning of a line.
    rest: Vec<u8>,
    /// The line is too long: the rest of it is skipped.
    skips: bool,
}

impl Splitter {
    /// Lines that end in this piece; `None` for those that are invalid or too long.
    pub(super) fn push(&mut self, piece: &[u8]) -> Vec<Option<Line>> {
        let mut lines = Vec::new();
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            if !self.skips {
                self.rest.extend_from_slice(part);
            }
            if part.ends_with(b"\n") {
                lines.push(if self.skips { None } else { parse(&self.rest) });
                self.skips = false;
                self.rest.clear();
            } else if self.rest.len() > MAX_LINE {
                self.skips = true;
                self.rest = Vec::new();
            }
        }
        lines
    }
}

fn parse(line: &[u8]) -> Option<Line> {
    #[derive(Deserialize)]
    struct Written {
        address: String,
        message: Value,
    }
    let Written { address, message } = serde_json::from_slice(line).ok()?;
    let mut message = match message {
        Value::String(text) => text,
        other => other.to_string(),
    };
    if !message.ends_with('\n') {
        message.push('\n');
    }
    Some(Line { address, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(address: &str, message: &str) -> Line {
        Line { address: address.to_owned(), message: message.to_owned().into() }
    }

    #[test]
    fn lines_in_pieces_are_joined() {
        let text = b"{\"address\":\"a:1\",\"message\":\"one\\n\"}\n{\"address\":\"b:2\",\"message\":{\"k\":\"v\"}}\n";
        let expected = [line("a:1", "one\n"), line("b:2", "{\"k\":\"v\"}\n")].map(Some);
        for size in [1, 7, 40, text.len()] {
            let mut splitter = Splitter::default();
            let lines: Vec<_> = text.chunks(size).flat_map(|piece| splitter.push(piece)).collect();
            assert_eq!(lines, expected, "{size}");
        }
    }

    #[test]
    fn invalid_and_long_lines_are_skipped() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"no json\n{}\n"), [None, None]);
        assert_eq!(splitter.push(&vec![b'x'; MAX_LINE + 1]), []);
        assert_eq!(splitter.push(&vec![b'x'; MAX_LINE]), []);
        assert_eq!(splitter.push(b"\n{\"address\":\"a:1\",\"message\":1}\n"), [None, Some(line("a:1", "1\n"))]);
    }
}
