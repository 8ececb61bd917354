//! Whether proxies use MeshServices.
//!
//! Deserialized from `{mode: Everywhere}` and from the plain word `Everywhere`; serialized as the first. Invalid input
//! is kept until validation, which reports its path.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    Choice, Word,
    proto_json::{is_first, word_or_first},
    words,
};

words! {
    #[derive(Default)]
    pub enum MeshServicesMode {
        /// No MeshServices are generated.
        #[default]
        Disabled = "Disabled",
        /// MeshServices beside services by `kuma.io/service` tags.
        Everywhere = "Everywhere",
        /// MeshServices for proxies that list reachable backends.
        ReachableBackends = "ReachableBackends",
        /// MeshServices only, without services by tags.
        Exclusive = "Exclusive",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MeshServices {
    #[serde(skip_serializing_if = "is_first")]
    pub mode: Option<Choice<MeshServicesMode>>,
    /// Unknown fields.
    #[serde(skip)]
    pub unknown: Vec<String>,
}

impl MeshServices {
    pub fn mode(&self) -> MeshServicesMode {
        word_or_first(self.mode.as_ref())
    }
}

impl From<Value> for MeshServices {
    fn from(written: Value) -> Self {
        let Value::Object(mut fields) = written else {
            return Self { mode: mode(&written), unknown: Vec::new() };
        };
        let mode = fields.remove("mode").as_ref().and_then(mode);
        Self { mode, unknown: fields.into_iter().map(|(name, _)| name).collect() }
    }
}

fn mode(written: &Value) -> Option<Choice<MeshServicesMode>> {
    Some(match written {
        Value::Null => return None,
        // Kuma's first spelling.
        Value::String(word) if word == "ReachableBackendRefs" => MeshServicesMode::ReachableBackends.into(),
        Value::String(word) => Choice::parse(word),
        Value::Number(number) => by_number(number).unwrap_or_else(|| Choice::Unknown(number.to_string())),
        other => Choice::Unknown(other.to_string()),
    })
}

fn by_number(number: &serde_json::Number) -> Option<Choice<MeshServicesMode>> {
    let index = usize::try_from(number.as_u64()?).ok()?;
    MeshServicesMode::ALL.get(index).map(|(_, mode)| (*mode).into())
}

impl<'de> Deserialize<'de> for MeshServices {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

impl JsonSchema for MeshServices {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "MeshServices".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mode = generator.subschema_for::<Choice<MeshServicesMode>>();
        json_schema!({ "oneOf": [{ "type": "object", "properties": { "mode": mode } }, mode] })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn string_and_object_forms_are_equal() {
        for (written, stored) in [
            (json!("Everywhere"), json!({ "mode": "Everywhere" })),
            (json!({ "mode": "Everywhere" }), json!({ "mode": "Everywhere" })),
            (json!("ReachableBackendRefs"), json!({ "mode": "ReachableBackends" })),
            (json!({ "mode": "ReachableBackendRefs" }), json!({ "mode": "ReachableBackends" })),
            (json!({ "mode": 3 }), json!({ "mode": "Exclusive" })),
            (json!("Disabled"), json!({})),
            (json!({}), json!({})),
        ] {
            assert_eq!(serde_json::to_value(MeshServices::from(written.clone())).unwrap(), stored, "{written}");
        }
    }

    #[test]
    fn invalid_modes_are_kept_for_validation() {
        for written in [json!("Always"), json!({ "mode": "Always" }), json!(9), json!([]), json!({ "mode": true })] {
            assert!(matches!(MeshServices::from(written.clone()).mode, Some(Choice::Unknown(_))), "{written}");
        }
    }
}
