//! Access log backends: the legacy form of MeshAccessLog.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::BackendConf;
use crate::proto_json::is_default;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    #[serde(skip_serializing_if = "is_default")]
    pub default_backend: String,
    #[serde(skip_serializing_if = "is_default")]
    pub backends: Vec<LoggingBackend>,
}

impl Logging {
    /// The backend of this name, or the default one.
    pub fn backend(&self, name: Option<&str>) -> Option<&LoggingBackend> {
        let name = name.unwrap_or(&self.default_backend);
        self.backends.iter().find(|backend| backend.name == name)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LoggingBackend {
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// Envoy's access log format.
    #[serde(skip_serializing_if = "is_default")]
    pub format: String,
    /// `file` or `tcp`.
    #[serde(rename = "type", skip_serializing_if = "is_default")]
    pub backend_type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<BackendConf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct FileLogging {
    #[serde(skip_serializing_if = "is_default")]
    pub path: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TcpLogging {
    /// `host:port`
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
}
