//! What generators did for a service: part of the status of all kinds of services.

use serde::{Deserialize, Serialize};

use crate::{Choice, Condition, words};

words! {
    pub enum AddressOrigin {
        HostnameGenerator = "HostnameGenerator",
        Kubernetes = "Kubernetes",
    }
}

/// A name under which a service is found.
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
    /// The name under which the store knows the generator.
    pub core_name: String,
}

/// How one generator fared with a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GeneratorStatus {
    pub hostname_generator_ref: GeneratorRef,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
