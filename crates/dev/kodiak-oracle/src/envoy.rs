//! One Envoy: its simulated configuration, its certificate, and the addresses of its inbounds.

use anyhow::{Context as _, Result};
use kodiak_envoy::envoy::config::core::v3::{
    Address, DataSource, SocketAddress, TrafficDirection, address, data_source, socket_address::PortSpecifier,
};
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::extensions::transport_sockets::tls::v3::{Secret, secret};
use kodiak_envoy::envoy::service::discovery::v3::DiscoveryResponse;
use kodiak_testkit::simulate::SimulatedProxy;
use kodiak_xds_stream::{ResourceSet, TypeUrl};
use prost::Message as _;

use crate::Certificate;

pub(crate) struct Envoy {
    pub(crate) simulated: SimulatedProxy,
    pub(crate) listeners: Vec<Listener>,
    /// `None` if it presents none.
    pub(crate) certificate: Option<Certificate>,
}

impl Envoy {
    pub(crate) fn of(resources: &ResourceSet) -> Result<Self> {
        let secrets = decode::<Secret>(resources, TypeUrl::Secret)?;
        Ok(Self {
            simulated: SimulatedProxy::of(resources)?,
            listeners: decode(resources, TypeUrl::Listener)?,
            certificate: secrets.iter().find_map(certificate),
        })
    }

    /// Addresses at which other proxies call it.
    pub(crate) fn inbounds(&self) -> impl Iterator<Item = (&str, u16)> {
        let inbound = i32::from(TrafficDirection::Inbound);
        let declared = move |listener: &&Listener| {
            listener.traffic_direction == inbound && listener.use_original_dst != Some(true)
        };
        self.listeners.iter().filter(declared).filter_map(at)
    }

    /// Listener of the outbound at an address.
    pub(crate) fn outbound(&self, address: &str, port: u16) -> Option<&Listener> {
        let outbound = i32::from(TrafficDirection::Outbound);
        let mut outbounds = self.listeners.iter().filter(|listener| listener.traffic_direction == outbound);
        outbounds.find(|listener| at(listener) == Some((address, port)))
    }
}

fn at(listener: &Listener) -> Option<(&str, u16)> {
    let Some(Address { address: Some(address::Address::SocketAddress(socket)) }) = &listener.address else {
        return None;
    };
    let SocketAddress { address, port_specifier: Some(PortSpecifier::PortValue(port)), .. } = socket else {
        return None;
    };
    Some((address, u16::try_from(*port).ok()?))
}

fn certificate(secret: &Secret) -> Option<Certificate> {
    let Some(secret::Type::TlsCertificate(certificate)) = &secret.r#type else { return None };
    match certificate.certificate_chain.as_ref()? {
        DataSource { specifier: Some(data_source::Specifier::InlineBytes(text)), .. } => {
            Some(Certificate::read(&String::from_utf8_lossy(text)))
        }
        _ => None,
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
