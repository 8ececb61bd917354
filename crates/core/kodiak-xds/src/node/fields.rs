//! Reads and writes untyped metadata fields. A field of an unexpected type counts as missing.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_envoy::google::protobuf::{ListValue, Struct, Value, value::Kind};

use crate::metadata::string;

/// Reads the fields of one struct.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) Option<&'a Struct>);

impl<'a> Reader<'a> {
    pub(super) fn text(self, key: &str) -> Option<String> {
        match self.kind(key)? {
            Kind::StringValue(text) if !text.is_empty() => Some(text.clone()),
            _ => None,
        }
    }

    /// A number or a string: both occur.
    pub(super) fn port(self, key: &str) -> Option<u32> {
        let port: u16 = match self.kind(key)? {
            Kind::StringValue(text) => text.parse().ok()?,
            // A whole number displays without a fraction; others do not parse.
            Kind::NumberValue(number) => number.to_string().parse().ok()?,
            _ => return None,
        };
        (port != 0).then_some(port.into())
    }

    pub(super) fn flag(self, key: &str) -> Option<bool> {
        match self.kind(key)? {
            Kind::BoolValue(flag) => Some(*flag),
            Kind::StringValue(text) => text.parse().ok(),
            _ => None,
        }
    }

    pub(super) fn texts(self, key: &str) -> BTreeSet<String> {
        let Some(Kind::ListValue(list)) = self.kind(key) else { return BTreeSet::new() };
        let text = |value: &Value| match &value.kind {
            Some(Kind::StringValue(text)) => Some(text.clone()),
            _ => None,
        };
        list.values.iter().filter_map(text).collect()
    }

    pub(super) fn map(self, key: &str) -> BTreeMap<String, String> {
        let Some(inner) = self.within(key).0 else { return BTreeMap::new() };
        let text = |(key, value): (&String, &Value)| match &value.kind {
            Some(Kind::StringValue(text)) => Some((key.clone(), text.clone())),
            _ => None,
        };
        inner.fields.iter().filter_map(text).collect()
    }

    pub(super) fn within(self, key: &str) -> Reader<'a> {
        match self.kind(key) {
            Some(Kind::StructValue(inner)) => Reader(Some(inner)),
            _ => Reader(None),
        }
    }

    fn kind(self, key: &str) -> Option<&'a Kind> {
        self.0?.fields.get(key)?.kind.as_ref()
    }
}

/// Builds a struct, and skips missing values.
#[derive(Default)]
pub(super) struct Writer(BTreeMap<String, Value>);

impl Writer {
    pub(super) fn text(mut self, key: &str, text: Option<&str>) -> Self {
        self.0.extend(text.map(|text| (key.to_owned(), string(text))));
        self
    }

    pub(super) fn port(self, key: &str, port: Option<u32>) -> Self {
        self.text(key, port.map(|port| port.to_string()).as_deref())
    }

    pub(super) fn number(mut self, key: &str, number: Option<u32>) -> Self {
        let value = |number| Value { kind: Some(Kind::NumberValue(f64::from(number))) };
        self.0.extend(number.map(|number| (key.to_owned(), value(number))));
        self
    }

    pub(super) fn flag(mut self, key: &str, flag: Option<bool>) -> Self {
        self.0.extend(flag.map(|flag| (key.to_owned(), Value { kind: Some(Kind::BoolValue(flag)) })));
        self
    }

    pub(super) fn texts(mut self, key: &str, texts: &BTreeSet<String>) -> Self {
        let list = ListValue { values: texts.iter().map(|text| string(text)).collect() };
        self.0.insert(key.to_owned(), Value { kind: Some(Kind::ListValue(list)) });
        self
    }

    pub(super) fn map(self, key: &str, map: &BTreeMap<String, String>) -> Self {
        let fields = map.iter().map(|(key, text)| (key.clone(), string(text))).collect();
        self.within(key, (!map.is_empty()).then_some(Struct { fields }))
    }

    pub(super) fn within(mut self, key: &str, inner: Option<Struct>) -> Self {
        let value = |inner| Value { kind: Some(Kind::StructValue(inner)) };
        self.0.extend(inner.map(|inner| (key.to_owned(), value(inner))));
        self
    }

    pub(super) fn done(self) -> Struct {
        Struct { fields: self.0 }
    }
}
