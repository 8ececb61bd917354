//! Spec of a MeshGateway.

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
    /// Selects builtin gateways that have the tags of one of these.
    #[serde(skip_serializing_if = "is_default")]
    pub selectors: Vec<Selector>,
    /// Tags of all listeners, added to those of the proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conf: Option<Conf>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Must include `kuma.io/service`. `*` matches any value.
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
    /// Virtual host: a hostname, or a wildcard such as `*.example.com`. All by default.
    #[serde(skip_serializing_if = "is_default")]
    pub hostname: String,
    /// The port that the gateway listens on.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// Protocol of the listener.
    #[serde(skip_serializing_if = "is_first")]
    pub protocol: Option<Choice<Protocol>>,
    /// Required for HTTPS and TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Tags of this listener, which override those of the gateway and the proxy.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// Makes the listener reachable for proxies of other meshes.
    #[serde(skip_serializing_if = "is_default")]
    pub cross_mesh: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ListenerResources>,
}

impl Listener {
    /// `*` when the listener serves all hostnames.
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
        /// The gateway terminates TLS.
        Terminate = "TERMINATE",
        /// The backend terminates TLS.
        Passthrough = "PASSTHROUGH",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    #[serde(skip_serializing_if = "is_first")]
    pub mode: Option<Choice<TlsMode>>,
    /// One or two with `TERMINATE`: an RSA one, an ECDSA one, or both.
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
    /// Maximum number of concurrent connections.
    #[serde(skip_serializing_if = "is_default")]
    pub connection_limit: u32,
}
