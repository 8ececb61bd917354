//! The zone of a control plane.

use kodiak_model::dns::is_dns_1123_label;
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// Of a DNS label.
const LONGEST: usize = 63;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Multizone {
    pub zone: Zone,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Zone {
    /// Name of the zone that this control plane serves: a DNS label.
    #[serde(deserialize_with = "dns_label")]
    pub name: String,
}

impl Default for Zone {
    fn default() -> Self {
        Self { name: "default".to_owned() }
    }
}

/// Names of clusters and KRIs would be ambiguous with other names.
fn dns_label<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if is_dns_1123_label(&name) && name.len() <= LONGEST {
        return Ok(name);
    }
    let text = "write lower-case letters, digits and `-`, at most 63 characters, with a letter or digit at both ends";
    Err(D::Error::custom(format!("{name:?} is no name of a zone, which is part of hostnames and KRIs: {text}")))
}
