//! A simulator of Envoy: computes how a configuration handles a call.
//!
//! Input: the messages of one proxy, or the encoded resources of its stream, and a request; output: its destination and
//! its modifications, or the step at which it fails. Start with [`SimulatedProxy`]; [`call()`] joins two of them.
//!
//! The proxy is idle: no limit is reached, no circuit is open, only endpoints that are marked unhealthy are unhealthy,
//! and nothing is retried. Headers that Envoy adds itself (`x-request-id`, `x-forwarded-for`, ...) are omitted.
//!
//! **Invariant:** nothing is guessed. Unsupported settings that could change the result are [`Refusal::Unsupported`].
//! Those that do not change it are listed in `filters.rs`.

mod action;
mod address;
mod answer;
mod call;
mod cluster;
mod filters;
mod header_changes;
mod header_match;
mod listener;
mod path;
mod rbac;
mod redirect;
mod refusal;
mod request;
mod route_match;
mod strings;
mod tls;
mod virtual_host;

#[cfg(test)]
mod tests;

use anyhow::{Context as _, Result};
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::core::v3::TrafficDirection;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::Secret;
use kodiak_envoy::envoy::service::discovery::v3::DiscoveryResponse;
use kodiak_xds_stream::{ResourceSet, TypeUrl};
use prost::Message as _;

pub use answer::{Answer, Endpoint, Forwarded, Http, Mirror, Routed, Sent, Shadow};
pub use call::{Called, Workload, call};
pub use header_changes::Changes;
pub use refusal::Refusal;
pub use request::{Connection, Headers, Protocol, Request, TlsPeer};
pub use tls::UpstreamTls;

use address::Destination;
use cluster::Clusters;
use tls::Secrets;

/// Configuration of one Envoy.
pub struct SimulatedProxy {
    listeners: Vec<Listener>,
    clusters: Clusters,
    secrets: Secrets,
}

impl SimulatedProxy {
    /// Routes are inline in the listeners. Clusters without discovery contain their endpoints.
    pub fn new(listeners: Vec<Listener>, clusters: Vec<Cluster>, assignments: Vec<ClusterLoadAssignment>) -> Self {
        Self { listeners, clusters: Clusters::new(clusters, assignments), secrets: Secrets::default() }
    }

    /// The same with the validation contexts that TLS contexts reference.
    #[must_use]
    pub fn with_secrets(self, secrets: Vec<Secret>) -> Self {
        let secrets = Secrets::new(secrets);
        Self { clusters: self.clusters.with_secrets(secrets.clone()), secrets, ..self }
    }

    /// Decodes the resources of a proxy.
    pub fn of(resources: &ResourceSet) -> Result<Self> {
        let listeners = decode(resources, TypeUrl::Listener)?;
        let proxy = Self::new(listeners, decode(resources, TypeUrl::Cluster)?, decode(resources, TypeUrl::Endpoint)?);
        Ok(proxy.with_secrets(decode(resources, TypeUrl::Secret)?))
    }

    /// A connection of the application to this address.
    pub fn outbound(
        &self,
        address: &str,
        port: u16,
        request: &Request,
        connection: &Connection,
    ) -> Result<Sent, Refusal> {
        self.send(TrafficDirection::Outbound, Destination { address, port }, request, connection)
    }

    /// A connection of another proxy to this address.
    pub fn inbound(
        &self,
        address: &str,
        port: u16,
        request: &Request,
        connection: &Connection,
    ) -> Result<Sent, Refusal> {
        self.send(TrafficDirection::Inbound, Destination { address, port }, request, connection)
    }

    fn send(
        &self,
        direction: TrafficDirection,
        to: Destination<'_>,
        request: &Request,
        connection: &Connection,
    ) -> Result<Sent, Refusal> {
        let listener = listener::find(&self.listeners, direction, to)?;
        let inspected = listener::inspect(listener, connection, request.protocol)?;
        let chain = listener::choose(listener, to, &inspected)?;
        let uris = tls::accept(&listener.name, chain.transport_socket.as_ref(), connection, &self.secrets)?;
        let readable = connection.tls.is_none() || uris.is_some();
        let accepted = filters::Accepted {
            listener: &listener.name,
            clusters: &self.clusters,
            seen: rbac::Seen { to, uris, sni: &inspected.sni, request: None },
            request: Some(request).filter(|request| readable && request.protocol != Protocol::Bytes),
            dice: request.dice,
        };
        filters::run(&accepted, &chain.filters)
    }
}

fn decode<M: kodiak_envoy::TypeUrl>(resources: &ResourceSet, of: TypeUrl) -> Result<Vec<M>> {
    let mut messages = Vec::new();
    for (name, encoded) in resources.of(of) {
        let response = DiscoveryResponse::decode(encoded.sotw.clone()).with_context(|| format!("{of} {name}"))?;
        for any in &response.resources {
            messages.push(kodiak_envoy::unpack(any).with_context(|| format!("{of} {name}"))?);
        }
    }
    Ok(messages)
}
