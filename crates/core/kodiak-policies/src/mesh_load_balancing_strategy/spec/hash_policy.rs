//! Hash policies.

use kodiak_model::{Choice, GoDuration, words};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

words! {
    pub enum HashPolicyType {
        Header = "Header",
        Cookie = "Cookie",
        Connection = "Connection",
        SourceIP = "SourceIP",
        QueryParameter = "QueryParameter",
        FilterState = "FilterState",
    }
}

/// The type, and the member of that name. SourceIP is the legacy name of Connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type"]))]
pub struct HashPolicy {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub policy_type: Option<Choice<HashPolicyType>>,
    /// When this policy produced a hash, the rest of the list is skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminal: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Header>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cookie: Option<Cookie>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Connection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query_parameter: Option<QueryParameter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_state: Option<FilterState>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Header {
    #[schemars(length(min = 1))]
    pub name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct Cookie {
    #[schemars(length(min = 1))]
    pub name: String,
    /// Validity of the cookie that is generated for clients without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<GoDuration>,
    /// Path of the generated cookie.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Uses the source IP address.
    #[serde(rename = "sourceIP", skip_serializing_if = "Option::is_none")]
    pub source_ip: Option<bool>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["name"]))]
pub struct QueryParameter {
    #[schemars(length(min = 1))]
    pub name: String,
}

/// An object in Envoy's filter state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["key"]))]
pub struct FilterState {
    #[schemars(length(min = 1))]
    pub key: String,
}
