//! Status of a MeshMultiZoneService.

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
pub struct MeshMultiZoneServiceStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<Vip>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mesh_services: Vec<MatchedMeshService>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hostname_generators: Vec<GeneratorStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status for MeshMultiZoneServiceStatus {
    const PRESENT: bool = true;
}

/// Parts of a MeshService's KRI.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MatchedMeshService {
    pub name: String,
    pub namespace: String,
    pub zone: String,
    pub mesh: String,
}

#[cfg(test)]
mod tests {
    use super::{MatchedMeshService, MeshMultiZoneServiceStatus};

    #[test]
    fn all_parts_of_a_matched_service_are_serialized() {
        assert_eq!(serde_json::to_string(&MeshMultiZoneServiceStatus::default()).unwrap(), "{}");
        let mesh_services = vec![MatchedMeshService { name: "web".to_owned(), ..MatchedMeshService::default() }];
        let status = MeshMultiZoneServiceStatus { mesh_services, ..MeshMultiZoneServiceStatus::default() };
        let expected = r#"{"meshServices":[{"name":"web","namespace":"","zone":"","mesh":""}]}"#;
        assert_eq!(serde_json::to_string(&status).unwrap(), expected);
    }
}
