//! Status of a MeshService.

use serde::{Deserialize, Serialize};

use crate::{
    Choice, Condition, Status,
    kinds::hostname_generator::{Address, GeneratorStatus},
    proto_json::is_default,
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshServiceStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vips: Vec<Vip>,
    pub tls: TlsStatus,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hostname_generators: Vec<GeneratorStatus>,
    pub dataplane_proxies: DataplaneProxies,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

impl Status for MeshServiceStatus {
    const PRESENT: bool = true;
}

/// A virtual IP of the service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Vip {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub ip: String,
}

words! {
    pub enum TlsReadiness {
        Ready = "Ready",
        NotReady = "NotReady",
    }
}

/// Whether every proxy of the service has a certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TlsStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Choice<TlsReadiness>>,
}

/// Counts of the proxies that the service selects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneProxies {
    #[serde(skip_serializing_if = "is_default")]
    pub connected: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub healthy: u32,
    #[serde(skip_serializing_if = "is_default")]
    pub total: u32,
}

#[cfg(test)]
mod tests {
    use super::MeshServiceStatus;

    #[test]
    fn unset_fields_are_omitted() {
        let fresh = serde_json::to_string(&MeshServiceStatus::default()).unwrap();
        assert_eq!(fresh, r#"{"tls":{},"dataplaneProxies":{}}"#);
    }

    #[test]
    fn all_fields_round_trip() {
        let text = concat!(
            r#"{"addresses":[{"hostname":"web.svc.mesh.local","origin":"HostnameGenerator","#,
            r#""hostnameGeneratorRef":{"coreName":"local"}}],"vips":[{"ip":"241.0.0.1"}],"tls":{"status":"Ready"},"#,
            r#""hostnameGenerators":[{"hostnameGeneratorRef":{"coreName":"local"},"conditions":[{"type":"Generated","#,
            r#""status":"True","reason":"Generated","message":""}]}],"#,
            r#""dataplaneProxies":{"connected":1,"healthy":2,"total":3}}"#,
        );
        let status: MeshServiceStatus = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&status).unwrap(), text);
    }
}
