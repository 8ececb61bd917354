//! Parses YAML text into JSON values, without recursion and with bounded memory.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::{
    Document, Mark, Places, YamlError,
    places::{ROOT, Step},
    scalar,
};

const MAX_DEPTH: usize = 64;
/// Values take memory in proportion to the text, but aliases multiply it. Copies made for anchors and aliases may have
/// this many bytes, or [`MAX_COPIED_PER_BYTE`] for each byte of a longer text.
const MAX_COPIED: usize = 1024 * 1024;
const MAX_COPIED_PER_BYTE: usize = 4;

/// Parses all documents of a stream. Empty ones are skipped.
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut documents = Vec::new();
    let mut reader = Reader::new(text.len().saturating_mul(MAX_COPIED_PER_BYTE).max(MAX_COPIED));
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            message: error.info().to_owned(),
            mark: Mark { line: error.marker().line(), column: error.marker().col() + 1, length: 1 },
        })?;
        match event {
            Event::DocumentStart(_) => reader = reader.budget.reader(),
            Event::DocumentEnd => {
                let next = reader.budget.reader();
                let Reader { root, places, line, .. } = std::mem::replace(&mut reader, next);
                if let Some(value) = root.filter(|value| !value.is_null()) {
                    documents.push(Document { value, places, line });
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                reader.scalar(&text, style, anchor, tag.as_deref(), &span)?;
            }
            Event::SequenceStart(anchor, _) => reader.open(Open::List(Vec::new()), anchor, &span)?,
            Event::MappingStart(anchor, _) => reader.open(Open::Map(OpenMap::default()), anchor, &span)?,
            Event::SequenceEnd | Event::MappingEnd => reader.close(&span)?,
            Event::Alias(anchor) => reader.alias(anchor, &span)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd => (),
        }
    }
    Ok(documents)
}

/// Remaining bytes for copies, over all documents of a text.
#[derive(Clone, Copy)]
struct Budget {
    limit: usize,
    copied: usize,
}

impl Budget {
    fn reader(self) -> Reader {
        Reader {
            stack: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            places: Places::default(),
            path: Vec::new(),
            line: 0,
            bytes: 0,
            budget: self,
        }
    }

    /// Must be called before the copy is made.
    fn spend(&mut self, bytes: usize, span: &Span) -> Result<(), YamlError> {
        self.copied = self.copied.saturating_add(bytes);
        if self.copied > self.limit {
            return Err(error(format!("YAML aliases expand to more than {} bytes", self.limit), span));
        }
        Ok(())
    }
}

struct Reader {
    stack: Vec<Frame>,
    root: Option<Value>,
    anchors: HashMap<usize, Anchored>,
    places: Places,
    /// Nodes of the open containers and of the next value, without the document itself.
    path: Vec<usize>,
    line: usize,
    /// Size of all values so far, with aliases expanded.
    bytes: usize,
    budget: Budget,
}

/// An anchored value.
struct Anchored {
    value: Value,
    bytes: usize,
    /// Nesting depth of its containers.
    height: usize,
}

struct Frame {
    open: Open,
    anchor: usize,
    /// Size of the values before it; its own size is counted from there.
    bytes_before: usize,
    /// Nesting depth of its deepest value.
    height: usize,
}

enum Open {
    List(Vec<Value>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    map: Map<String, Value>,
    /// The key whose value comes next.
    key: Option<String>,
    /// Entries from `<<`, which written keys override.
    merged: Map<String, Value>,
}

impl OpenMap {
    fn close(self) -> Value {
        let Self { mut map, key: _, merged } = self;
        for (key, value) in merged {
            map.entry(key).or_insert(value);
        }
        Value::Object(map)
    }
}

impl Reader {
    fn new(limit: usize) -> Self {
        Budget { limit, copied: 0 }.reader()
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        span: &Span,
    ) -> Result<(), YamlError> {
        if self.expects_key() {
            return self.key(text, span);
        }
        let quoted = style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix == "str");
        let value = if quoted { Value::String(text.to_owned()) } else { scalar::resolve(text) };
        let bytes = size_of::<Value>() + text.len();
        self.bytes += bytes;
        if anchor > 0 {
            self.budget.spend(bytes, span)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), bytes, height: 0 });
        }
        self.step_in();
        self.mark_here(mark(span));
        self.put(value, 0, span);
        Ok(())
    }

    fn expects_key(&self) -> bool {
        matches!(self.stack.last(), Some(Frame { open: Open::Map(OpenMap { key: None, .. }), .. }))
    }

    fn key(&mut self, text: &str, span: &Span) -> Result<(), YamlError> {
        let Some(Frame { open: Open::Map(OpenMap { map, key, .. }), .. }) = self.stack.last_mut() else {
            return Ok(());
        };
        if map.contains_key(text) {
            return Err(error(format!("{text:?} is written twice"), span));
        }
        *key = Some(text.to_owned());
        self.bytes += size_of::<String>() + text.len();
        let node = self.places.child(self.here(), Step::Key(text.to_owned()));
        self.places.mark(node, mark(span));
        Ok(())
    }

    fn open(&mut self, open: Open, anchor: usize, span: &Span) -> Result<(), YamlError> {
        if self.expects_key() {
            return Err(error("a key must be plain text, not a list or a map".to_owned(), span));
        }
        self.check_depth(1, span)?;
        let bytes_before = self.bytes;
        self.bytes += size_of::<Value>();
        if self.stack.is_empty() {
            self.line = span.start.line();
            self.places.mark(ROOT, mark(&Span::empty(span.start)));
        } else {
            self.step_in();
            // A list item has no key that a position could refer to.
            if matches!(self.stack.last(), Some(Frame { open: Open::List(_), .. })) {
                self.mark_here(mark(span));
            }
        }
        self.stack.push(Frame { open, anchor, bytes_before, height: 0 });
        Ok(())
    }

    fn close(&mut self, span: &Span) -> Result<(), YamlError> {
        let Some(Frame { open, anchor, bytes_before, height }) = self.stack.pop() else { return Ok(()) };
        let value = match open {
            Open::List(list) => Value::Array(list),
            Open::Map(map) => map.close(),
        };
        let height = height + 1;
        if anchor > 0 {
            let bytes = self.bytes - bytes_before;
            self.budget.spend(bytes, span)?;
            self.anchors.insert(anchor, Anchored { value: value.clone(), bytes, height });
        }
        self.put(value, height, span);
        Ok(())
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<(), YamlError> {
        let Some(&Anchored { ref value, bytes, height }) = self.anchors.get(&anchor) else {
            return Err(error("an alias must come after what it stands for".to_owned(), span));
        };
        if self.expects_key() {
            return Err(error("an alias cannot be a key".to_owned(), span));
        }
        self.budget.spend(bytes, span)?;
        let value = value.clone();
        // Deeper nesting would exhaust the stack of recursive readers.
        self.check_depth(height, span)?;
        self.bytes += bytes;
        if let Some(Frame { open: Open::Map(OpenMap { key, merged, .. }), height: highest, .. }) = self.stack.last_mut()
            && key.as_deref() == Some("<<")
            && let Value::Object(map) = value
        {
            *key = None;
            *highest = (*highest).max(height.saturating_sub(1));
            merged.extend(map);
            return Ok(());
        }
        self.step_in();
        self.mark_here(mark(span));
        self.put(value, height, span);
        Ok(())
    }

    fn check_depth(&self, height: usize, span: &Span) -> Result<(), YamlError> {
        if self.stack.len() + height > MAX_DEPTH {
            return Err(error(format!("nested deeper than {MAX_DEPTH} levels"), span));
        }
        Ok(())
    }

    fn here(&self) -> usize {
        self.path.last().copied().unwrap_or(ROOT)
    }

    fn mark_here(&mut self, mark: Mark) {
        self.places.mark(self.here(), mark);
    }

    /// Appends the step from the innermost open container to the next value.
    fn step_in(&mut self) {
        let step = match self.stack.last() {
            Some(Frame { open: Open::List(list), .. }) => Step::Index(list.len()),
            Some(Frame { open: Open::Map(OpenMap { key: Some(key), .. }), .. }) => Step::Key(key.clone()),
            Some(Frame { open: Open::Map(OpenMap { key: None, .. }), .. }) | None => return,
        };
        let node = self.places.child(self.here(), step);
        self.path.push(node);
    }

    fn put(&mut self, value: Value, height: usize, span: &Span) {
        self.path.pop();
        if let Some(frame) = self.stack.last_mut() {
            frame.height = frame.height.max(height);
        }
        match self.stack.last_mut() {
            None => {
                if self.line == 0 {
                    self.line = span.start.line();
                }
                self.root = Some(value);
            }
            Some(Frame { open: Open::List(list), .. }) => list.push(value),
            Some(Frame { open: Open::Map(OpenMap { map, key, .. }), .. }) => {
                if let Some(key) = key.take() {
                    map.insert(key, value);
                }
            }
        }
    }
}

fn mark(span: &Span) -> Mark {
    let length =
        if span.start.line() == span.end.line() { span.end.index().saturating_sub(span.start.index()) } else { 1 };
    Mark { line: span.start.line(), column: span.start.col() + 1, length: length.max(1) }
}

fn error(message: String, span: &Span) -> YamlError {
    YamlError { message, mark: mark(span) }
}
