//! Spec of a ZoneIngressInsight, written by the control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{proto_json::is_default, subscription::Subscription};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ZoneIngressInsight {
    /// Connections to control planes, the latest last.
    #[serde(skip_serializing_if = "is_default")]
    pub subscriptions: Vec<Subscription>,
    /// Metadata that the proxy sent when it connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
}
