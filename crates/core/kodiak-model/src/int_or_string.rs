//! An integer, or a string that holds a number.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntOrString {
    Int(i64),
    Text(String),
}

impl IntOrString {
    /// The value as a decimal; `None` when the string is not a number.
    pub fn decimal(&self) -> Option<f64> {
        match self {
            #[expect(clippy::cast_precision_loss, reason = "percentages and ports are far below 2^53")]
            Self::Int(value) => Some(*value as f64),
            Self::Text(text) => text.parse().ok().filter(|value: &f64| value.is_finite()),
        }
    }
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = IntOrString;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number or a string")
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<IntOrString, E> {
                Ok(IntOrString::Int(value))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<IntOrString, E> {
                i64::try_from(value).map(IntOrString::Int).map_err(|_| E::custom("number is too large"))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for IntOrString {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "IntOrString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "type": "integer" }, { "type": "string" }], "x-kubernetes-int-or-string": true })
    }
}
