//! A port of the service beside the proxy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice, ProtoDuration, Protocol,
    proto_json::{is_default, is_first, word_or_first},
    tags, words,
};

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Inbound {
    /// The port that the proxy listens on. With transparent proxying, the port of the service itself.
    #[serde(skip_serializing_if = "is_default")]
    pub port: u32,
    /// The port of the service. The same as `port` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub service_port: u32,
    /// The address of the service. The address of the inbound by default.
    #[serde(skip_serializing_if = "is_default")]
    pub service_address: String,
    /// The address that the proxy listens on. `networking.address` by default.
    #[serde(skip_serializing_if = "is_default")]
    pub address: String,
    /// What the service is: `kuma.io/service` and whatever policies select by.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// The older form of `state`. Missing means ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Lets the proxy find out by itself whether the service is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_probe: Option<ServiceProbe>,
    /// Only Ready inbounds receive calls.
    #[serde(skip_serializing_if = "is_first")]
    pub state: Option<Choice<InboundState>>,
    /// Another name for the port, for MeshService and for `sectionName`. The port number by default.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// grpc, http, http2, kafka or tcp. Comes before the tag `kuma.io/protocol`.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: String,
}

words! {
    pub enum InboundState {
        Ready = "Ready",
        NotReady = "NotReady",
        /// There is no such listener, but the proxy's identity still covers it.
        Ignored = "Ignored",
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Health {
    #[serde(skip_serializing_if = "is_default")]
    pub ready: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceProbe {
    /// The time between two checks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<ProtoDuration>,
    /// How long one check may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<ProtoDuration>,
    /// So many failed checks in a row make the service unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<u32>,
    /// So many good checks in a row make the service healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<u32>,
    /// The check is whether a connection can be opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpProbe>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpProbe {}

impl Inbound {
    pub fn state(&self) -> InboundState {
        word_or_first(self.state.as_ref())
    }

    /// Whether calls may be sent here.
    pub fn is_ready(&self) -> bool {
        self.state() == InboundState::Ready && self.health.as_ref().is_none_or(|health| health.ready)
    }

    /// Sets `state`, and `health` for those who still look there.
    pub fn set_ready(&mut self, ready: bool) {
        let state = if ready { InboundState::Ready } else { InboundState::NotReady };
        self.state = Some(state.into());
        self.health = Some(Health { ready });
    }

    /// How `sectionName` and KRIs call this port.
    pub fn section_name(&self) -> String {
        if self.name.is_empty() { self.port.to_string() } else { self.name.clone() }
    }

    pub fn service(&self) -> Option<&str> {
        self.tags.get(tags::SERVICE).map(String::as_str)
    }

    /// TCP when nothing says otherwise.
    pub fn protocol(&self) -> Protocol {
        let tag = self.tags.get(tags::PROTOCOL).map(String::as_str);
        let written = Some(self.protocol.as_str()).filter(|text| !text.is_empty()).or(tag);
        written.and_then(Protocol::parse).unwrap_or(Protocol::Tcp)
    }

    /// Where the proxy listens, in a Dataplane of this address.
    pub fn address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.address.is_empty() { networking_address } else { &self.address }
    }

    /// Where the service listens, in a Dataplane of this address.
    pub fn service_address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.service_address.is_empty() { self.address_or(networking_address) } else { &self.service_address }
    }

    pub fn service_port(&self) -> u32 {
        if self.service_port == 0 { self.port } else { self.service_port }
    }
}
