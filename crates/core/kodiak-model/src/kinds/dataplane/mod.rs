//! Dataplane: one proxy, its inbounds and its outbounds.

mod admission;
pub mod annotations;
mod change;
mod check;
mod spec;
mod status;

use std::collections::BTreeMap;

use crate::{
    CheckCtx, Kind, Language, NoStatus, Overview, Problems, Scope, Spec,
    labels::{self, Labels},
};

pub use admission::{Admission, DataplaneStatus, HeldInbound, TokenScope, WrittenKeys};
pub use spec::{
    BackendKind, Dataplane, EnvoyAdmin, Gateway, GatewayType, Health, Inbound, InboundState, IpFamilyMode, Listener,
    ListenerState, ListenerType, Networking, Outbound, OutboundBackendRef, ProbeEndpoint, Probes, ReachableBackendRef,
    ReachableBackends, ServiceProbe, TcpProbe, TransparentProxying,
};
pub use status::{ProxyState, ProxyStatus};

pub static KIND: Kind =
    Kind::legacy("Dataplane", "dataplanes", Scope::Mesh, Language::of::<Dataplane>()).short("dp").overview(Overview {
        name: "DataplaneOverview",
        insight: "DataplaneInsight",
        field: "dataplane",
        insight_field: "dataplaneInsight",
        old_path: "dataplanes+insights",
    });

impl Spec for Dataplane {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }

    fn derived_labels(&self) -> Vec<(&'static str, Option<&'static str>)> {
        let proxy_type = if self.is_builtin_gateway() { "gateway" } else { "sidecar" };
        let listens = |wanted| self.listeners().iter().any(|listener| listener.listener_type() == wanted);
        let enabled = |wanted| listens(wanted).then_some("enabled");
        vec![
            (labels::PROXY_TYPE, Some(proxy_type)),
            (labels::LISTENER_ZONE_INGRESS, enabled(ListenerType::ZoneIngress)),
            (labels::LISTENER_ZONE_EGRESS, enabled(ListenerType::ZoneEgress)),
        ]
    }
}

impl Dataplane {
    pub fn inbounds(&self) -> &[Inbound] {
        self.networking.as_ref().map_or(&[], |networking| &networking.inbound)
    }

    pub fn outbounds(&self) -> &[Outbound] {
        self.networking.as_ref().map_or(&[], |networking| &networking.outbound)
    }

    /// Outbounds that have an effect: not those at the address of an inbound, where both listeners would bind it.
    pub fn usable_outbounds(&self) -> impl Iterator<Item = &Outbound> {
        self.outbounds().iter().filter(|outbound| !self.is_inbound_address(outbound.address(), outbound.port))
    }

    pub fn is_inbound_address(&self, address: &str, port: u32) -> bool {
        let own = self.networking.as_ref().map_or("", |networking| networking.address.as_str());
        self.inbounds().iter().any(|inbound| inbound.port == port && inbound.address_or(own) == address)
    }

    pub fn listeners(&self) -> &[Listener] {
        self.networking.as_ref().map_or(&[], |networking| &networking.listeners)
    }

    pub fn gateway(&self) -> Option<&Gateway> {
        self.networking.as_ref()?.gateway.as_ref()
    }

    pub fn is_builtin_gateway(&self) -> bool {
        self.gateway().is_some_and(|gateway| gateway.gateway_type() == GatewayType::Builtin)
    }

    pub fn is_delegated_gateway(&self) -> bool {
        self.gateway().is_some_and(|gateway| gateway.gateway_type() == GatewayType::Delegated)
    }

    /// Tags that policies and services select by: those of the gateway, then those of each inbound.
    pub fn tag_sets(&self) -> impl Iterator<Item = &BTreeMap<String, String>> {
        let gateway = self.gateway().map(|gateway| &gateway.tags);
        gateway.into_iter().chain(self.inbounds().iter().map(|inbound| &inbound.tags))
    }
}

/// Violation in the workload label. Only checked when a Dataplane is created.
pub fn workload_label_fault(labels: &Labels) -> Option<String> {
    let workload = labels.get(labels::WORKLOAD)?;
    let faults = crate::dns::dns_1035_label(workload);
    (!faults.is_empty()).then(|| {
        let (key, faults) = (labels::WORKLOAD, faults.join("; "));
        format!(
            "labels[{key:?}]: must be a valid DNS-1035 label (at most 63 characters, matching regex [a-z]([-a-z0-9]*[a-z0-9])?): {faults}"
        )
    })
}
