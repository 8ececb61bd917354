//! Validates regular expressions for Envoy.
//!
//! Envoy compiles expressions with RE2 and rejects the whole resource that holds one it cannot compile. No crate has
//! the syntax of RE2, so this parses it the way RE2 does (`re2/parse.cc`, in Envoy's mode: bytes, not characters, and
//! no captures) and produces only errors.
//!
//! It rejects only expressions that every RE2 of a supported Envoy rejects. It accepts those that depend on the build:
//! names of Unicode scripts, and expressions whose program would exceed RE2's memory limit.

mod class;
mod stored;
#[cfg(test)]
mod tests;

pub use stored::invalid_in;

use std::iter::Peekable;
use std::str::Chars;

/// RE2's limit on repetitions; those of nested expressions multiply.
const MOST_REPETITIONS: u32 = 1000;

/// The error is why RE2 would reject the expression.
pub fn check(expression: &str) -> Result<(), String> {
    // Envoy matches bytes, so each byte counts as a character.
    let bytes: String = expression.bytes().map(char::from).collect();
    let mut parser =
        Parser { rest: bytes.chars().peekable(), open: vec![Group::default()], repeated: false, no_posix: false };
    while parser.rest.peek().is_some() {
        parser.item()?;
    }
    if parser.open.len() > 1 { Err("missing closing )".to_owned()) } else { Ok(()) }
}

struct Parser<'a> {
    rest: Peekable<Chars<'a>>,
    /// Open groups; the first is the whole expression.
    open: Vec<Group>,
    /// The last item was a repetition, which cannot be repeated.
    repeated: bool,
    /// No POSIX class ends in the rest of the expression. Cached, so that the rest is searched only once.
    no_posix: bool,
}

/// State of an open group.
#[derive(Default)]
struct Group {
    /// Repetition count of the last item; `None` when there is no item to repeat.
    operand: Option<u32>,
    /// Highest repetition count of its items.
    largest: u32,
}

impl Parser<'_> {
    fn item(&mut self) -> Result<(), String> {
        let repeated = std::mem::take(&mut self.repeated);
        let Some(first) = self.rest.next() else { return Ok(()) };
        match first {
            '(' => self.open()?,
            ')' => self.close()?,
            '|' => self.group().operand = None,
            '[' => {
                class::bracket(&mut self.rest, &mut self.no_posix)?;
                self.operand(1);
            }
            '*' | '+' | '?' => self.repeat(1, 1, repeated, &first.to_string())?,
            '{' => match self.counts() {
                Some((least, most)) => self.repeat(least, most, repeated, "{…}")?,
                None => self.operand(1),
            },
            '\\' => self.escape()?,
            _ => self.operand(1),
        }
        Ok(())
    }

    fn group(&mut self) -> &mut Group {
        if self.open.is_empty() {
            self.open.push(Group::default());
        }
        let last = self.open.len() - 1;
        &mut self.open[last]
    }

    fn operand(&mut self, repetitions: u32) {
        let group = self.group();
        group.operand = Some(repetitions);
        group.largest = group.largest.max(repetitions);
    }

    fn close(&mut self) -> Result<(), String> {
        if self.open.len() == 1 {
            return Err("unexpected )".to_owned());
        }
        let inner = self.open.pop().map_or(1, |group| group.largest.max(1));
        self.operand(inner);
        Ok(())
    }

    /// Reads `{2}`, `{2,}` or `{2,5}`, with 0 for no upper bound. Anything else is literal text, starting with the
    /// brace.
    fn counts(&mut self) -> Option<(u32, u32)> {
        let mut ahead = self.rest.clone();
        let least = number(&mut ahead)?;
        let most = match ahead.next()? {
            '}' => least,
            ',' if ahead.peek() == Some(&'}') => {
                ahead.next();
                0
            }
            ',' => {
                let most = number(&mut ahead)?;
                if ahead.next()? != '}' {
                    return None;
                }
                // An explicit 0 is not "no upper bound": `{2,0}` is an invalid range.
                if most < least { u32::MAX } else { most }
            }
            _ => return None,
        };
        self.rest = ahead;
        Some((least, most))
    }

    fn repeat(&mut self, least: u32, most: u32, repeated: bool, operator: &str) -> Result<(), String> {
        let Some(inner) = self.group().operand else {
            return Err(format!("missing argument to repetition operator: {operator}"));
        };
        if repeated {
            return Err(format!("bad repetition operator: {operator} after another one"));
        }
        if least > MOST_REPETITIONS || most > MOST_REPETITIONS {
            return Err(format!("bad repetition: at most {MOST_REPETITIONS} are possible"));
        }
        let times = if most == 0 { least } else { most }.max(1);
        let product = inner.saturating_mul(times);
        if times >= 2 && product > MOST_REPETITIONS {
            return Err(format!("bad repetition: nested ones make more than {MOST_REPETITIONS}"));
        }
        self.operand(product);
        // Non-greedy.
        if self.rest.peek() == Some(&'?') {
            self.rest.next();
        }
        self.repeated = true;
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        if self.rest.peek() != Some(&'?') {
            self.open.push(Group::default());
            return Ok(());
        }
        self.rest.next();
        let mut ahead = self.rest.clone();
        match (ahead.next(), ahead.next()) {
            (Some('='), _) => Err("look-ahead (?= is not supported".to_owned()),
            (Some('!'), _) => Err("look-ahead (?! is not supported".to_owned()),
            (Some('<'), Some('=' | '!')) => Err("look-behind (?<= and (?<! are not supported".to_owned()),
            (Some('P'), Some('<')) => {
                self.rest.next();
                self.rest.next();
                self.name()
            }
            (Some('<'), _) => {
                self.rest.next();
                self.name()
            }
            _ => self.flags(),
        }
    }

    fn name(&mut self) -> Result<(), String> {
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('>') => break,
                Some(character) => name.push(character),
                None => return Err("named group without a closing >".to_owned()),
            }
        }
        let allowed = |character: char| character == '_' || character.is_alphanumeric();
        if name.is_empty() || !name.chars().all(allowed) {
            return Err(format!("invalid name of a group: {name:?}"));
        }
        self.open.push(Group::default());
        Ok(())
    }

    /// `(?i)` for the rest of the group, `(?i:` for a new group.
    fn flags(&mut self) -> Result<(), String> {
        let (mut negated, mut some) = (false, false);
        loop {
            match self.rest.next() {
                Some('i' | 'm' | 's' | 'U') => some = true,
                Some('-') if !negated => (negated, some) = (true, false),
                Some(end @ (':' | ')')) if some || !negated => {
                    if end == ':' {
                        self.open.push(Group::default());
                    }
                    return Ok(());
                }
                Some(other) => return Err(format!("invalid or unsupported group (?{other}")),
                None => return Err("missing closing )".to_owned()),
            }
        }
    }

    fn escape(&mut self) -> Result<(), String> {
        match self.rest.peek().copied() {
            Some('Q') => {
                self.rest.next();
                self.quoted();
            }
            Some('b' | 'B' | 'A' | 'z' | 'C') => {
                self.rest.next();
                self.operand(1);
            }
            _ => {
                class::escape(&mut self.rest)?;
                self.operand(1);
            }
        }
        Ok(())
    }

    /// Literal text up to `\E`, or to the end.
    fn quoted(&mut self) {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.peek() == Some(&'E') {
                self.rest.next();
                return;
            }
            self.operand(1);
        }
    }
}

/// Numbers have no leading zeros; RE2 treats those of ten digits and more as literal text.
fn number(rest: &mut Peekable<Chars<'_>>) -> Option<u32> {
    let mut digits = String::new();
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    if digits.len() > 9 || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    digits.parse().ok()
}
