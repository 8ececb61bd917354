//! Lexer of templates.

use std::borrow::Cow;

use super::{number, quote};

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
/// The trim marker of a delimiter, `- ` or ` -`, removes the white space on its outer side.
const MARKER_LENGTH: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Open,
    Close,
    Space,
    Pipe,
    /// `.Mesh`
    Field,
    /// `label`
    Name,
    /// `if`, `end` and other reserved words.
    Keyword,
    Dot,
    Nil,
    Bool,
    /// In double quotes or back quotes.
    Quoted,
    Number,
    Variable,
    Parenthesis,
    /// An unexpected character.
    Other,
    /// Lexing stops here; the text is the error.
    Bad,
    End,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: Cow<'a, str>,
    /// In bytes.
    pub(super) start: usize,
    pub(super) line: usize,
}

/// All tokens. Only the last one is `End` or `Bad`.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer { text, at: 0, lines: Lines { text, line: 1, counted: 0 }, tokens: Vec::new() };
    if let Err(Fault { start, reason }) = lexer.run() {
        let line = lexer.lines.of(start);
        lexer.tokens.push(Token { kind: Kind::Bad, text: reason.into(), start, line });
    }
    lexer.tokens
}

pub(super) fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    lines: Lines<'a>,
    tokens: Vec<Token<'a>>,
}

/// A lexical error and its position.
struct Fault {
    start: usize,
    reason: String,
}

impl Lexer<'_> {
    fn run(&mut self) -> Result<(), Fault> {
        while self.text_before_action() {
            if self.opens_comment() {
                self.comment()?;
            } else {
                self.open();
                while !self.close() {
                    self.inside()?;
                }
            }
        }
        Ok(())
    }

    /// Moves to the next `{{`. `false` at the end of the text.
    fn text_before_action(&mut self) -> bool {
        let rest = self.rest();
        let Some(length) = rest.find(OPEN) else {
            self.push_unless_empty(rest.len());
            self.at = self.text.len();
            self.push(Kind::End, 0);
            return false;
        };
        let (before, action) = rest.split_at(length);
        let trimmed = if left_marker(action) > 0 { before.trim_end_matches(is_space) } else { before };
        self.push_unless_empty(trimmed.len());
        self.at += length - trimmed.len();
        true
    }

    fn opens_comment(&self) -> bool {
        let action = self.rest();
        action[OPEN.len() + left_marker(action)..].starts_with("/*")
    }

    fn comment(&mut self) -> Result<(), Fault> {
        self.at += OPEN.len() + left_marker(self.rest());
        let start = self.at;
        let fault = |reason: &str| Fault { start, reason: reason.to_owned() };
        let inside = &self.rest()["/*".len()..];
        let length = inside.find("*/").ok_or_else(|| fault("unclosed comment"))?;
        self.at += length + "/**/".len();
        let trims = closes(self.rest()).ok_or_else(|| fault("comment ends before closing delimiter"))?;
        self.leave(trims);
        Ok(())
    }

    fn open(&mut self) {
        let marker = left_marker(self.rest());
        self.push(Kind::Open, OPEN.len());
        self.at += marker;
    }

    fn close(&mut self) -> bool {
        let Some(trims) = closes(self.rest()) else { return false };
        let start = self.at + if trims { MARKER_LENGTH } else { 0 };
        let line = self.lines.of(start);
        self.tokens.push(Token { kind: Kind::Close, text: CLOSE.into(), start, line });
        self.leave(trims);
        true
    }

    /// Consumes a closing delimiter, and the white space after it when `trims` is set.
    fn leave(&mut self, trims: bool) {
        self.at += CLOSE.len();
        if trims {
            self.at += MARKER_LENGTH;
            self.at += self.rest().len() - self.rest().trim_start_matches(is_space).len();
        }
    }

    /// Reads one token between the delimiters.
    fn inside(&mut self) -> Result<(), Fault> {
        let rest = self.rest();
        let Some(c) = rest.chars().next() else { return Err(self.fault("unclosed action")) };
        match c {
            c if is_space(c) => self.space(),
            '|' => self.push(Kind::Pipe, 1),
            '"' => self.quoted(Kind::Quoted, "unterminated quoted string")?,
            '\'' => self.quoted(Kind::Number, "unterminated character constant")?,
            '`' => self.raw()?,
            '$' => self.word(Kind::Variable, 1)?,
            '.' if rest[1..].starts_with(|c: char| !c.is_ascii_digit()) => self.word(Kind::Field, 1)?,
            '.' | '+' | '-' | '0'..='9' => self.number()?,
            c if is_word(c) => self.word(Kind::Name, 0)?,
            '(' => self.push(Kind::Parenthesis, 1),
            ')' => return Err(self.fault("unexpected right paren")),
            ':' if rest.starts_with(":=") => self.push(Kind::Other, ":=".len()),
            ':' => return Err(self.fault("expected :=")),
            ' '..='~' => self.push(Kind::Other, 1),
            c => return Err(self.fault(&format!("unrecognized character in action: {}", quote::describe(c)))),
        }
        Ok(())
    }

    /// Consumes spaces, except the one that belongs to the trim marker of a closing delimiter.
    fn space(&mut self) {
        let rest = self.rest();
        let length = rest.len() - rest.trim_start_matches(is_space).len();
        let last = length - 1;
        self.push(Kind::Space, if closes(&rest[last..]).is_some() { last } else { length });
    }

    /// Reads a name, or the rest of a field or variable after its first character.
    fn word(&mut self, kind: Kind, prefix: usize) -> Result<(), Fault> {
        let behind = &self.rest()[prefix..];
        let length = prefix + behind.find(|c| !is_word(c)).unwrap_or(behind.len());
        let after = &self.rest()[length..];
        let ends = |c: char| is_space(c) || ".,|:()".contains(c) || after.starts_with(CLOSE);
        if let Some(c) = after.chars().next().filter(|c| !ends(*c)) {
            return Err(self.fault(&format!("bad character {}", quote::describe(c))));
        }
        let kind = match &self.rest()[..length] {
            "." => Kind::Dot,
            "nil" => Kind::Nil,
            "true" | "false" => Kind::Bool,
            "block" | "break" | "continue" | "define" | "else" | "end" | "if" | "range" | "template" | "with" => {
                Kind::Keyword
            }
            _ => kind,
        };
        self.push(kind, length);
        Ok(())
    }

    fn number(&mut self) -> Result<(), Fault> {
        match number::scan(self.rest()) {
            Ok(length) => {
                self.push(Kind::Number, length);
                Ok(())
            }
            Err(length) => {
                let seen = quote::quote(&self.rest()[..length]);
                Err(self.fault(&format!("bad number syntax: {seen}")))
            }
        }
    }

    /// Reads up to the closing quote on the same line; a backslash escapes the next character.
    fn quoted(&mut self, kind: Kind, unterminated: &str) -> Result<(), Fault> {
        let mut characters = self.rest().char_indices();
        let quote = characters.next().map(|(_, c)| c);
        while let Some((at, c)) = characters.next() {
            let escaped = if c == '\\' { characters.next().map(|(_, c)| c) } else { None };
            if c == '\n' || escaped == Some('\n') {
                break;
            }
            if Some(c) == quote {
                self.push(kind, at + 1);
                return Ok(());
            }
        }
        Err(self.fault(unterminated))
    }

    fn raw(&mut self) -> Result<(), Fault> {
        let Some(length) = self.rest()[1..].find('`') else { return Err(self.fault("unterminated raw quoted string")) };
        self.push(Kind::Quoted, length + "``".len());
        Ok(())
    }
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn push_unless_empty(&mut self, length: usize) {
        if length > 0 {
            self.push(Kind::Text, length);
        }
    }

    fn push(&mut self, kind: Kind, length: usize) {
        let start = self.at;
        let line = self.lines.of(start);
        self.at += length;
        self.tokens.push(Token { kind, text: self.text[start..self.at].into(), start, line });
    }

    fn fault(&self, reason: &str) -> Fault {
        Fault { start: self.at, reason: reason.to_owned() }
    }
}

/// Length of the trim marker after an opening delimiter.
fn left_marker(action: &str) -> usize {
    let marked = action[OPEN.len()..].strip_prefix('-').is_some_and(|rest| rest.starts_with(is_space));
    if marked { MARKER_LENGTH } else { 0 }
}

/// `Some` at a closing delimiter: whether it trims the white space after it.
fn closes(rest: &str) -> Option<bool> {
    let marked = rest.strip_prefix(is_space).and_then(|rest| rest.strip_prefix('-'));
    if marked.is_some_and(|rest| rest.starts_with(CLOSE)) {
        Some(true)
    } else {
        rest.starts_with(CLOSE).then_some(false)
    }
}

/// Converts positions, which must be queried in ascending order, to line numbers.
struct Lines<'a> {
    text: &'a str,
    line: usize,
    counted: usize,
}

impl Lines<'_> {
    fn of(&mut self, position: usize) -> usize {
        self.line += self.text[self.counted..position].bytes().filter(|b| *b == b'\n').count();
        self.counted = position;
        self.line
    }
}
