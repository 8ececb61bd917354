//! Layout of a proxy: inbounds, listeners and outbounds.

use kodiak_model::{
    Kri, Labels, Word as _,
    kinds::dataplane::{self, InboundState, ListenerType},
};
use kodiak_rules::Proxy;
use serde::Serialize;

use kodiak_inspection::inspect::MeshView;

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Layout {
    pub(crate) kri: String,
    pub(crate) labels: Labels,
    pub(crate) inbounds: Vec<LayoutPort>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) outbounds: Vec<LayoutPort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) spiffe_id: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayoutPort {
    pub(crate) kri: String,
    pub(crate) port: u32,
    pub(crate) protocol: &'static str,
    /// Name of its resources in the Envoy configuration.
    pub(crate) proxy_resource_name: String,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listener {
    pub(crate) kri: String,
    #[serde(rename = "type")]
    pub(crate) kind: &'static str,
    pub(crate) port: u32,
    pub(crate) proxy_resource_name: String,
}

/// `zone` is that of the control plane; `redirected` whether the proxy is transparent.
pub(crate) fn of_proxy(view: &MeshView, proxy: &Proxy, zone: &str, redirected: bool) -> Layout {
    let Proxy { mesh, name, labels, dataplane, admission: _ } = proxy;
    let own = Kri::of(&dataplane::KIND, mesh, name, labels).expect("Dataplanes have a short name");
    let kri = |section: &str| Kri { section: section.to_owned(), ..own.clone() }.to_string();
    let inbounds = dataplane.inbounds().iter().filter(|inbound| inbound.state() != InboundState::Ignored);
    let inbounds = inbounds.map(|inbound| {
        let section = inbound.section_name();
        let proxy_resource_name = format!("self_inbound_dp_{section}");
        LayoutPort {
            kri: kri(&section),
            port: inbound.port,
            protocol: inbound.protocol().as_str(),
            proxy_resource_name,
        }
    });
    let listeners = dataplane.listeners().iter().map(|listener| {
        let (section, listener_type) = (listener.section_name(), listener.listener_type());
        let proxy_resource_name = format!("self_{}_dp_{section}", place(listener_type));
        Listener { kri: kri(&section), kind: listener_type.text(), port: listener.port, proxy_resource_name }
    });
    let mut outbounds: Vec<LayoutPort> = view
        .reachable(proxy, redirected)
        .into_iter()
        .map(|(destination, port)| {
            let kri = Kri { section: port.section.clone(), ..destination.kri.clone() }.to_string();
            LayoutPort { kri: kri.clone(), port: port.port, protocol: port.protocol.as_str(), proxy_resource_name: kri }
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
        spiffe_id: kodiak_identity::of_proxy(&view.identities, proxy, zone),
    }
}

fn place(listener_type: ListenerType) -> &'static str {
    match listener_type {
        ListenerType::ZoneIngress => "zoneingress",
        ListenerType::ZoneEgress => "zoneegress",
        ListenerType::Unspecified => "unspecified",
    }
}
