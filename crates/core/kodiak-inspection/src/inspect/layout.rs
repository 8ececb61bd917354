//! Layout of a proxy: inbounds, listeners and outbounds.

use kodiak_model::{
    Kri, Labels, Word as _,
    kinds::dataplane::{self, InboundState, ListenerType},
};
use kodiak_rules::Proxy;
use serde::Serialize;

use super::{MeshView, spiffe_id};
use kodiak_services::reachable;

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Layout {
    pub kri: String,
    pub labels: Labels,
    pub inbounds: Vec<Port>,
    pub listeners: Vec<Listener>,
    pub outbounds: Vec<Port>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spiffe_id: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Port {
    pub kri: String,
    pub port: u32,
    pub protocol: &'static str,
    /// Name of its resources in the Envoy configuration.
    pub proxy_resource_name: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    pub kri: String,
    #[serde(rename = "type")]
    pub listener_type: &'static str,
    pub port: u32,
    pub proxy_resource_name: String,
}

/// `zone` is that of the control plane; `redirected` whether the proxy is transparent.
pub fn of_proxy(view: &MeshView, proxy: &Proxy, zone: &str, redirected: bool) -> Layout {
    let Proxy { mesh, name, labels, dataplane, admission: _ } = proxy;
    let own = Kri::of(&dataplane::KIND, mesh, name, labels).expect("Dataplanes have a short name");
    let kri = |section: &str| Kri { section: section.to_owned(), ..own.clone() }.to_string();
    let inbounds = dataplane.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored);
    let inbounds = inbounds.map(|inbound| {
        let section = inbound.section_name();
        let proxy_resource_name = format!("self_inbound_dp_{section}");
        Port { kri: kri(&section), port: inbound.port, protocol: inbound.protocol().as_str(), proxy_resource_name }
    });
    let listeners = dataplane.listeners().iter().map(|listener| {
        let (section, listener_type) = (listener.section_name(), listener.listener_type());
        let proxy_resource_name = format!("self_{}_dp_{section}", place(listener_type));
        Listener { kri: kri(&section), listener_type: listener_type.text(), port: listener.port, proxy_resource_name }
    });
    let mut outbounds: Vec<Port> = reachable::reachable(&view.destinations, view.mode, proxy, redirected)
        .into_iter()
        .map(|(destination, port)| {
            let kri = Kri { section: port.section.clone(), ..destination.kri.clone() }.to_string();
            Port { kri: kri.clone(), port: port.port, protocol: port.protocol.as_str(), proxy_resource_name: kri }
        })
        .collect();
    outbounds.sort_by(|a, b| a.kri.cmp(&b.kri));
    outbounds.dedup();
    Layout {
        kri: own.to_string(),
        labels: (**labels).clone(),
        inbounds: inbounds.collect(),
        listeners: listeners.collect(),
        outbounds,
        spiffe_id: spiffe_id::of_proxy(&view.identities, proxy, zone),
    }
}

fn place(listener_type: ListenerType) -> &'static str {
    match listener_type {
        ListenerType::ZoneIngress => "zoneingress",
        ListenerType::ZoneEgress => "zoneegress",
        ListenerType::Unspecified => "unspecified",
    }
}
