//! From YAML text to JSON values. Without recursion, and bounded, whatever the text.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Value};

use super::{Document, Mark, Places, YamlError, places::Step, scalar};

const MAX_DEPTH: usize = 64;
/// Text grows by what it holds, but aliases multiply: the values they stand for are counted.
const MAX_ALIASED: usize = 100_000;

/// Reads all documents of a stream. Empty ones are left out.
pub fn parse(text: &str) -> Result<Vec<Document>, YamlError> {
    let mut documents = Vec::new();
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            message: error.info().to_owned(),
            mark: Mark { line: error.marker().line(), column: error.marker().col() + 1, length: 1 },
        })?;
        match event {
            Event::DocumentStart(_) => reader = Reader { aliased: reader.aliased, ..Reader::default() },
            Event::DocumentEnd => {
                let Reader { root, places, line, aliased, .. } = std::mem::take(&mut reader);
                reader.aliased = aliased;
                if let Some(value) = root.filter(|value| !value.is_null()) {
                    documents.push(Document { value, places, line });
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                reader.scalar(&text, style, anchor, tag.as_deref(), &span)?;
            }
            Event::SequenceStart(anchor, _) => reader.open(Open::List(Vec::new()), anchor, &span)?,
            Event::MappingStart(anchor, _) => reader.open(Open::Map(OpenMap::default()), anchor, &span)?,
            Event::SequenceEnd | Event::MappingEnd => reader.close(&span),
            Event::Alias(anchor) => reader.alias(anchor, &span)?,
            Event::Nothing | Event::StreamStart | Event::StreamEnd => (),
        }
    }
    Ok(documents)
}

#[derive(Default)]
struct Reader {
    stack: Vec<Frame>,
    root: Option<Value>,
    anchors: HashMap<usize, (Value, usize)>,
    places: Places,
    path: Vec<Step>,
    line: usize,
    /// Values so far, to know how many an anchor stands for.
    nodes: usize,
    aliased: usize,
}

struct Frame {
    open: Open,
    anchor: usize,
    /// Nodes seen when it was opened; what it holds is counted from there.
    nodes_before: usize,
}

enum Open {
    List(Vec<Value>),
    Map(OpenMap),
}

#[derive(Default)]
struct OpenMap {
    map: Map<String, Value>,
    /// The key that waits for its value.
    key: Option<String>,
    /// What `<<` brings, for keys that are not written.
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
        self.nodes += 1;
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), 1));
        }
        self.step_in();
        self.places.insert(self.path.clone(), mark(span));
        self.put(value, span);
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
        let mut path = self.path.clone();
        path.push(Step::Key(text.to_owned()));
        self.places.insert(path, mark(span));
        Ok(())
    }

    fn open(&mut self, open: Open, anchor: usize, span: &Span) -> Result<(), YamlError> {
        if self.expects_key() {
            return Err(error("a key must be plain text, not a list or a map".to_owned(), span));
        }
        if self.stack.len() >= MAX_DEPTH {
            return Err(error(format!("nested deeper than {MAX_DEPTH} levels"), span));
        }
        let nodes_before = self.nodes;
        self.nodes += 1;
        if self.stack.is_empty() {
            self.line = span.start.line();
            self.places.insert(Vec::new(), mark(&Span::empty(span.start)));
        } else {
            self.step_in();
            // A list's item has no key to point at.
            if matches!(self.path.last(), Some(Step::Index(_))) {
                self.places.insert(self.path.clone(), mark(span));
            }
        }
        self.stack.push(Frame { open, anchor, nodes_before });
        Ok(())
    }

    fn close(&mut self, span: &Span) {
        let Some(Frame { open, anchor, nodes_before }) = self.stack.pop() else { return };
        let value = match open {
            Open::List(list) => Value::Array(list),
            Open::Map(map) => map.close(),
        };
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), self.nodes - nodes_before));
        }
        self.put(value, span);
    }

    fn alias(&mut self, anchor: usize, span: &Span) -> Result<(), YamlError> {
        let Some((value, nodes)) = self.anchors.get(&anchor).cloned() else {
            return Err(error("an alias must come after what it stands for".to_owned(), span));
        };
        self.nodes += nodes;
        self.aliased += nodes;
        if self.aliased > MAX_ALIASED {
            return Err(error(format!("aliases stand for more than {MAX_ALIASED} values"), span));
        }
        if self.expects_key() {
            return Err(error("an alias cannot be a key".to_owned(), span));
        }
        if let Some(Frame { open: Open::Map(OpenMap { key, merged, .. }), .. }) = self.stack.last_mut()
            && key.as_deref() == Some("<<")
            && let Value::Object(map) = value
        {
            *key = None;
            merged.extend(map);
            return Ok(());
        }
        self.step_in();
        self.places.insert(self.path.clone(), mark(span));
        self.put(value, span);
        Ok(())
    }

    /// Appends the step from the innermost open container to the value that is about to be put.
    fn step_in(&mut self) {
        match self.stack.last() {
            Some(Frame { open: Open::List(list), .. }) => self.path.push(Step::Index(list.len())),
            Some(Frame { open: Open::Map(OpenMap { key: Some(key), .. }), .. }) => {
                self.path.push(Step::Key(key.clone()));
            }
            Some(Frame { open: Open::Map(OpenMap { key: None, .. }), .. }) | None => (),
        }
    }

    fn put(&mut self, value: Value, span: &Span) {
        self.path.pop();
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
