//! Spec of a MeshService.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Choice, IntOrString, LabelSelector, kinds::dataplane::Inbound, words};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MeshService {
    /// Whether at least one of its proxies is healthy. Set by the control plane.
    pub state: Choice<State>,
    /// The proxies of the service. None when empty.
    pub selector: Selector,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<Port>,
    /// Identities that clients accept in the server's certificate. Set by the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identities: Option<Vec<Identity>>,
}

impl Default for MeshService {
    fn default() -> Self {
        let state = State::Unavailable.into();
        Self { state, selector: Selector::default(), ports: Vec::new(), identities: None }
    }
}

words! {
    pub enum State {
        Available = "Available",
        Unavailable = "Unavailable",
    }
}

/// At most one member is set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Proxies with an inbound that has all these tags.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplane_tags: Option<BTreeMap<String, String>>,
    /// One proxy, by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplane_ref: Option<DataplaneRef>,
    /// Proxies with these labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dataplane_labels: Option<LabelSelector>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DataplaneRef {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["port"]))]
pub struct Port {
    /// Name of the port in policies and KRIs. Its number by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The port that clients connect to.
    pub port: u32,
    /// The inbound that serves the port: its port number, or its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    /// Protocol: `tcp`, `http`, `http2`, `grpc` or `kafka`. `tcp` by default.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_protocol: String,
}

impl Default for Port {
    fn default() -> Self {
        Self { name: None, port: 0, target_port: None, app_protocol: "tcp".to_owned() }
    }
}

impl Port {
    /// Whether this inbound serves the port: by port number, or by name.
    pub fn is_served_by(&self, inbound: &Inbound) -> bool {
        match &self.target_port {
            Some(IntOrString::Int(number)) => *number == i64::from(inbound.port),
            Some(IntOrString::Text(name)) => !name.is_empty() && *name == inbound.name,
            None => false,
        }
    }
}

words! {
    pub enum IdentityType {
        /// Value of a `kuma.io/service` tag.
        ServiceTag = "ServiceTag",
        SpiffeId = "SpiffeID",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("required" = ["type", "value"]))]
pub struct Identity {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub identity_type: Option<Choice<IdentityType>>,
    pub value: String,
}
