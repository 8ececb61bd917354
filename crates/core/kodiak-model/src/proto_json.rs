//! JSON form of protobuf, which legacy kinds use: default values are omitted, and 64-bit integers are strings.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::{Choice, Word};

/// For `skip_serializing_if`: default values are omitted.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// For `skip_serializing_if`: the first value of an enum is its zero value, and is omitted.
pub fn is_first<W: Word>(choice: &Option<Choice<W>>) -> bool {
    choice.as_ref().is_none_or(|choice| choice.known().is_some_and(|word| word == first()))
}

/// The value of an enum field, or the enum's first value when the field is missing or invalid.
pub fn word_or_first<W: Word>(choice: Option<&Choice<W>>) -> W {
    choice.and_then(Choice::known).unwrap_or_else(first)
}

fn first<W: Word>() -> W {
    W::ALL.first().expect("`words!` takes at least one word").1
}

/// A 64-bit integer: serialized as a string, since JSON parsers may not hold it, and deserialized from both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counter(pub u64);

impl Serialize for Counter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Counter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Counter;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or a string that holds one")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Counter, E> {
                Ok(Counter(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Counter, E> {
                text.parse().map(Counter).map_err(|_| E::invalid_value(de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for Counter {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Counter".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true })
    }
}

#[cfg(test)]
mod tests {
    use super::Counter;

    #[test]
    fn counters_are_written_as_strings_and_read_from_both() {
        assert_eq!(serde_json::to_string(&Counter(10)).unwrap(), r#""10""#);
        for text in ["18446744073709551615", r#""18446744073709551615""#] {
            assert_eq!(serde_json::from_str::<Counter>(text).unwrap(), Counter(u64::MAX), "{text}");
        }
        for text in ["-1", r#""-1""#, r#""many""#, "1.5", "{}"] {
            assert!(serde_json::from_str::<Counter>(text).is_err(), "{text}");
        }
    }
}
