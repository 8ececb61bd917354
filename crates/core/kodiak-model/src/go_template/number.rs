//! Go's number literals: their extent in a text, and their value.

use super::quote::quote;

const DECIMAL: &str = "0123456789_";
const HEX: &str = "0123456789abcdefABCDEF_";

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Float(f64),
}

/// Length of the number at the start of `text`. `Err` is the length of a malformed number.
pub(super) fn scan(text: &str) -> Result<usize, usize> {
    let first = scan_real(text)?;
    let rest = &text[first..];
    if !rest.starts_with(['+', '-']) {
        return Ok(first);
    }
    // 1+2i
    let second = scan_real(rest).map_err(|length| first + length)?;
    if rest[..second].ends_with('i') { Ok(first + second) } else { Err(first + second) }
}

fn scan_real(text: &str) -> Result<usize, usize> {
    let mut scan = Scan { text, at: 0 };
    scan.one("+-");
    let mut digits = DECIMAL;
    if scan.one("0") {
        if scan.one("xX") {
            digits = HEX;
        } else if scan.one("oO") {
            digits = "01234567_";
        } else if scan.one("bB") {
            digits = "01_";
        }
    }
    scan.many(digits);
    if scan.one(".") {
        scan.many(digits);
    }
    let exponent = (digits == DECIMAL && scan.one("eE")) || (digits == HEX && scan.one("pP"));
    if exponent {
        scan.one("+-");
        scan.many(DECIMAL);
    }
    scan.one("i");
    match text[scan.at..].chars().next() {
        Some(c) if super::lexer::is_word(c) => Err(scan.at + c.len_utf8()),
        _ => Ok(scan.at),
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    /// Consumes the next character if it is one of these, which are all ASCII.
    fn one(&mut self, these: &str) -> bool {
        let taken = self.text[self.at..].starts_with(|c| these.contains(c));
        self.at += usize::from(taken);
        taken
    }

    fn many(&mut self, these: &str) {
        while self.one(these) {}
    }
}

/// Value of a number literal. `Err` is the message.
pub(super) fn value(text: &str) -> Result<Number, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let other_base = digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.");
    if other_base || text.starts_with('\'') || text.contains(['e', 'E', 'i', '_']) {
        return Err(format!("number {text} is not supported; write it as a whole or a decimal number"));
    }
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return text.parse().map(Number::Int).map_err(|_| format!("integer overflow: {}", quote(text)));
    }
    let float = text.parse().ok().filter(|float: &f64| float.is_finite());
    float.map(Number::Float).ok_or_else(|| format!("illegal number syntax: {}", quote(text)))
}
