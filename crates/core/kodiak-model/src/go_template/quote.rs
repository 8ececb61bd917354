//! Go's string literals.

use std::fmt::Write;

/// Go's `%q`: double quotes and Go's escapes.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{c}' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{b}' => quoted.push_str("\\v"),
            c if is_printable(c) => quoted.push(c),
            c => push_escaped(&mut quoted, c),
        }
    }
    quoted.push('"');
    quoted
}

fn push_escaped(quoted: &mut String, c: char) {
    let code = u32::from(c);
    let written = match code {
        0..0x80 => write!(quoted, "\\x{code:02x}"),
        0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
        _ => write!(quoted, "\\U{code:08x}"),
    };
    written.expect("a String takes all writes");
}

/// Go's `%#U`: `U+0021 '!'`.
pub(super) fn describe(c: char) -> String {
    let code = u32::from(c);
    if is_printable(c) { format!("U+{code:04X} '{c}'") } else { format!("U+{code:04X}") }
}

fn is_printable(c: char) -> bool {
    c == ' ' || !(c.is_control() || c.is_whitespace() || c == '\u{ad}' || c == '\u{feff}')
}

/// Value of a literal in double quotes or back quotes. `None` when an escape is invalid.
pub(super) fn unquote(literal: &str) -> Option<String> {
    if let Some(raw) = literal.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
        return Some(raw.replace('\r', ""));
    }
    let inside = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(found) = rest.find('\\') {
        bytes.extend_from_slice(&rest.as_bytes()[..found]);
        rest = unescape(&rest[found + 1..], &mut bytes)?;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// Decodes one escape after its backslash, and returns the rest of the text.
fn unescape<'a>(text: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let simple = match text.as_bytes().first()? {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'"' => b'"',
        b'x' => return byte(text.get(1..3)?, 16, text.get(3..)?, bytes),
        b'0'..=b'7' => return byte(text.get(..3)?, 8, text.get(3..)?, bytes),
        b'u' => return character(text.get(1..5)?, text.get(5..)?, bytes),
        b'U' => return character(text.get(1..9)?, text.get(9..)?, bytes),
        _ => return None,
    };
    bytes.push(simple);
    text.get(1..)
}

fn byte<'a>(digits: &str, radix: u32, rest: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    bytes.push(u8::try_from(code(digits, radix)?).ok()?);
    Some(rest)
}

fn character<'a>(digits: &str, rest: &'a str, bytes: &mut Vec<u8>) -> Option<&'a str> {
    let c = char::from_u32(code(digits, 16)?)?;
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Some(rest)
}

/// Accepts only digits: `from_str_radix` would accept a sign.
fn code(digits: &str, radix: u32) -> Option<u32> {
    digits.chars().all(|c| c.is_digit(radix)).then(|| u32::from_str_radix(digits, radix).ok())?
}
