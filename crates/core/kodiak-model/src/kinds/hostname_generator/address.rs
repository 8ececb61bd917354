//! Hostnames in the status of a destination, and the generators they come from.

use serde::{Deserialize, Serialize};

use crate::{Choice, Condition, words};

words! {
    pub enum AddressOrigin {
        HostnameGenerator = "HostnameGenerator",
        Kubernetes = "Kubernetes",
    }
}

/// A hostname of a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Address {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Choice<AddressOrigin>>,
    pub hostname_generator_ref: GeneratorRef,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratorRef {
    /// Name of the generator in the store.
    pub core_name: String,
}

/// Result of one generator for a destination.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratorStatus {
    pub hostname_generator_ref: GeneratorRef,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
