//! Status of a MeshExternalService.

use serde::{Deserialize, Serialize};

use crate::{
    Condition, Status,
    kinds::{
        hostname_generator::{Address, GeneratorStatus},
        mesh_service::Vip,
    },
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshExternalServiceStatus {
    pub vip: Vip,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hostname_generators: Vec<GeneratorStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status for MeshExternalServiceStatus {
    const PRESENT: bool = true;
}

#[cfg(test)]
mod tests {
    use super::MeshExternalServiceStatus;

    #[test]
    fn empty_vip_is_serialized() {
        let fresh = serde_json::to_string(&MeshExternalServiceStatus::default()).unwrap();
        assert_eq!(fresh, r#"{"vip":{}}"#);
    }
}
