//! A zone ingress or zone egress that a proxy serves for its mesh.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice,
    proto_json::{is_default, is_first, word_or_first},
    words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Listener {
    /// ZoneIngress accepts traffic from other zones; ZoneEgress sends traffic out of the zone.
    #[serde(rename = "type", skip_serializing_if = "is_first")]
    pub listener_type: Option<Choice<ListenerType>>,
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// For `sectionName`. The port number by default.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    #[serde(skip_serializing_if = "is_first")]
    pub state: Option<Choice<ListenerState>>,
}

words! {
    pub enum ListenerType {
        Unspecified = "Unspecified",
        ZoneIngress = "ZoneIngress",
        ZoneEgress = "ZoneEgress",
    }
}

words! {
    pub enum ListenerState {
        Ready = "Ready",
        NotReady = "NotReady",
    }
}

impl Listener {
    pub fn listener_type(&self) -> ListenerType {
        word_or_first(self.listener_type.as_ref())
    }

    pub fn is_ready(&self) -> bool {
        word_or_first(self.state.as_ref()) == ListenerState::Ready
    }

    /// Name of this listener in `sectionName` and KRIs.
    pub fn section_name(&self) -> String {
        if self.name.is_empty() { self.port.to_string() } else { self.name.clone() }
    }

    /// Bind address, given the address of the Dataplane.
    pub fn address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.address.is_empty() { networking_address } else { &self.address }
    }
}
