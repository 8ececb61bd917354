//! Spec of MeshPassthrough.

use kodiak_model::{Choice, TargetRef, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshPassthrough {
    /// The proxies that this policy selects. All proxies of the mesh when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    pub default: Conf,
}

words! {
    pub enum PassthroughMode {
        All = "All",
        Matched = "Matched",
        None = "None",
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Conf {
    /// All destinations, none, or those that `appendMatch` lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passthrough_mode: Option<Choice<PassthroughMode>>,
    /// Has no effect with the modes All and None.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub append_match: Option<Vec<Match>>,
}

impl Default for Conf {
    fn default() -> Self {
        Self { passthrough_mode: Some(PassthroughMode::Matched.into()), append_match: None }
    }
}

words! {
    pub enum MatchType {
        Domain = "Domain",
        Ip = "IP",
        Cidr = "CIDR",
    }
}

words! {
    pub enum Protocol {
        Tcp = "tcp",
        Tls = "tls",
        Grpc = "grpc",
        Http = "http",
        Http2 = "http2",
        Mysql = "mysql",
    }
}

/// A destination outside the mesh.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "value"]))]
pub struct Match {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub match_type: Option<Choice<MatchType>>,
    /// A hostname, which may start with `*.`; an IP address; or a CIDR.
    pub value: String,
    /// All ports by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    pub protocol: Choice<Protocol>,
}

impl Default for Match {
    fn default() -> Self {
        Self { match_type: None, value: String::new(), port: None, protocol: Protocol::Tcp.into() }
    }
}
