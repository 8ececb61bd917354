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
    /// ZoneIngress takes calls from other zones; ZoneEgress sends calls out of the zone.
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

    /// How `sectionName` and KRIs call this listener.
    pub fn section_name(&self) -> String {
        if self.name.is_empty() { self.port.to_string() } else { self.name.clone() }
    }

    /// Where the proxy listens, in a Dataplane of this address.
    pub fn address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.address.is_empty() { networking_address } else { &self.address }
    }
}
