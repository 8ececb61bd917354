//! Settings of a backend, whose schema depends on the backend's type.

use std::{borrow::Cow, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::SchemaSettings, json_schema};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{FieldPath, Shape, conform, schema::Node};

/// May contain private keys, so it is never printed.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BackendConf(pub Value);

impl BackendConf {
    /// Deserializes the settings of one type of backend. Missing settings are empty ones.
    pub fn read<T: DeserializeOwned + JsonSchema>(conf: Option<&Self>) -> Result<T, String> {
        let (mut value, findings) = conformed::<T>(conf, &FieldPath::ROOT);
        if !findings.problems.is_empty() {
            return Err(findings.problems.to_string());
        }
        serde_json::from_value(value.take()).map_err(|error| error.to_string())
    }

    /// A warning for each unknown field of this type of backend.
    pub fn unknown_fields<T: JsonSchema>(conf: Option<&Self>, at: &FieldPath<'_>) -> Vec<String> {
        conformed::<T>(conf, at).1.unknown.iter().map(ToString::to_string).collect()
    }

    /// # Panics
    /// Not for structs of settings, which become JSON objects.
    pub fn of<T: Serialize>(settings: &T) -> Self {
        Self(serde_json::to_value(settings).expect("settings are made of maps with string keys, lists and scalars"))
    }
}

fn conformed<T: JsonSchema>(conf: Option<&BackendConf>, at: &FieldPath<'_>) -> (Value, conform::Findings) {
    let mut value = conf.map_or_else(|| Value::Object(Map::new()), |conf| conf.0.clone());
    let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>();
    let findings = conform::conform(&mut value, &Node::compile(&schema), Shape::Legacy, at);
    (value, findings)
}

impl fmt::Debug for BackendConf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BackendConf(***)")
    }
}

impl JsonSchema for BackendConf {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "BackendConf".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true })
    }
}
