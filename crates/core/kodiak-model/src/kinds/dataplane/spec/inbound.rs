//! Inbound: a port of the service of a proxy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Choice, ProtoDuration, Protocol,
    proto_json::{is_default, is_first, word_or_first},
    tags, words,
};

/// Port of an inbound of a workload that serves nothing.
const SERVICELESS_PORT: u32 = 49151;

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
    /// Tags of the service: `kuma.io/service`, and any tags that policies select by.
    #[serde(skip_serializing_if = "is_default")]
    pub tags: BTreeMap<String, String>,
    /// The legacy form of `state`. Missing means ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Lets the proxy probe whether the service is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_probe: Option<ServiceProbe>,
    /// Only `Ready` inbounds are endpoints of their services.
    #[serde(skip_serializing_if = "is_first")]
    pub state: Option<Choice<InboundState>>,
    /// Name of the port, for MeshService and `sectionName`. The port number by default.
    #[serde(skip_serializing_if = "is_default")]
    pub name: String,
    /// grpc, http, http2, kafka or tcp. Overrides the tag `kuma.io/protocol`.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol: String,
}

words! {
    pub enum InboundState {
        Ready = "Ready",
        NotReady = "NotReady",
        /// The proxy has no such listener, but its certificate still covers the service.
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
    /// Interval between probes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<ProtoDuration>,
    /// Timeout of a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<ProtoDuration>,
    /// Number of consecutive failed probes that make the service unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unhealthy_threshold: Option<u32>,
    /// Number of consecutive successful probes that make the service healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub healthy_threshold: Option<u32>,
    /// Probes by opening a TCP connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpProbe>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TcpProbe {}

impl Inbound {
    pub fn state(&self) -> InboundState {
        word_or_first(self.state.as_ref())
    }

    /// Whether the inbound has a listener.
    pub fn is_served(&self) -> bool {
        self.state() != InboundState::Ignored && self.port != SERVICELESS_PORT
    }

    /// Whether the inbound is an endpoint.
    pub fn is_ready(&self) -> bool {
        self.state() == InboundState::Ready && self.health.as_ref().is_none_or(|health| health.ready)
    }

    /// Sets `state`, and `health` for clients that still read it.
    pub fn set_ready(&mut self, ready: bool) {
        let state = if ready { InboundState::Ready } else { InboundState::NotReady };
        self.state = Some(state.into());
        self.health = Some(Health { ready });
    }

    /// Name of this port in `sectionName` and KRIs.
    pub fn section_name(&self) -> String {
        if self.name.is_empty() { self.port.to_string() } else { self.name.clone() }
    }

    pub fn service(&self) -> Option<&str> {
        self.tags.get(tags::SERVICE).map(String::as_str)
    }

    /// TCP by default.
    pub fn protocol(&self) -> Protocol {
        let tag = self.tags.get(tags::PROTOCOL).map(String::as_str);
        let written = Some(self.protocol.as_str()).filter(|text| !text.is_empty()).or(tag);
        written.and_then(Protocol::parse).unwrap_or(Protocol::Tcp)
    }

    /// Bind address, given the address of the Dataplane.
    pub fn address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.address.is_empty() { networking_address } else { &self.address }
    }

    /// Address of the service, given the address of the Dataplane.
    pub fn service_address_or<'a>(&'a self, networking_address: &'a str) -> &'a str {
        if self.service_address.is_empty() { self.address_or(networking_address) } else { &self.service_address }
    }

    pub fn service_port(&self) -> u32 {
        if self.service_port == 0 { self.port } else { self.service_port }
    }
}
