//! What users write.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice,
    data_source::DataSource,
    proto_json::{is_default, is_first, word_or_first},
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshGateway {
    /// The proxies that it is for: builtin gateways with the tags of one of these.
    #[serde(skip_serializing_if = "is_default")]
    pub selectors: Vec<Selector>,
    /// Tags of all listeners, beside those of the proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<Conf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Needs `kuma.io/service`. `*` stands for any value.
    #[serde(rename = "match", skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    #[serde(skip_serializing_if = "is_default")]
    pub listeners: Vec<Listener>,
}

words! {
    pub enum Protocol {
        None = "NONE",
        Tcp = "TCP",
        Udp = "UDP",
        Tls = "TLS",
        Http = "HTTP",
        Https = "HTTPS",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// The virtual host: a name, or a wildcard such as `*.example.com`. All by default.
    #[serde(skip_serializing_if = "is_default")]
    pub hostname: String,
    /// The port that the gateway listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// What is spoken.
    #[serde(skip_serializing_if = "is_first")]
    pub protocol: Option<Choice<Protocol>>,
    /// Needed for HTTPS and TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Tags of this listener, stronger than those of the gateway and the proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// Proxies of other meshes may call the listener.
    #[serde(skip_serializing_if = "is_default")]
    pub cross_mesh: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ListenerResources>,
}

impl Listener {
    /// `*` where all are served.
    pub fn hostname(&self) -> &str {
        if self.hostname.is_empty() { "*" } else { &self.hostname }
    }

    pub fn protocol(&self) -> Protocol {
        word_or_first(self.protocol.as_ref())
    }
}

words! {
    pub enum TlsMode {
        None = "NONE",
        /// The gateway decrypts.
        Terminate = "TERMINATE",
        /// What the gateway calls decrypts.
        Passthrough = "PASSTHROUGH",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    #[serde(skip_serializing_if = "is_first")]
    pub mode: Option<Choice<TlsMode>>,
    /// One or two, when the gateway decrypts: an RSA one, an ECDSA one, or both.
    #[serde(skip_serializing_if = "is_default")]
    pub certificates: Vec<DataSource>,
}

impl ListenerTls {
    pub fn mode(&self) -> TlsMode {
        word_or_first(self.mode.as_ref())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerResources {
    /// How many connections the listener takes at once.
    #[serde(skip_serializing_if = "is_default")]
    pub connection_limit: u32,
}
