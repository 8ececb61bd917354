//! Kuma's placeholders in formats, such as `%KUMA_MESH%`.

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::target::{Destination, Inbound, Outbound, ProxyFact, ProxyFacts};

const UNKNOWN: &str = "unknown";
/// Destination of connections to addresses outside the mesh, as Kuma names it.
const OUTSIDE: &str = "external";

/// The proxy's own address, from its node metadata. The address itself would make the listeners of each proxy different.
const OWN_ADDRESS: &str = "%CEL(xds.node.metadata['dataplane.address'])%";
/// With port 0, as in Kuma: each connection has another port.
const OWN_ADDRESS_AND_PORT: &str = "%CEL(xds.node.metadata['dataplane.addressAndPort'])%";
/// SPIFFE ID of the caller: the first URI of its certificate.
const CALLER: &str = "%CEL(connection.uri_san_peer_certificate)%";

const SOURCE_SERVICE: &str = "%KUMA_SOURCE_SERVICE%";
const WORKLOAD: &str = "%KUMA_WORKLOAD%";
const ZONE: &str = "%KUMA_ZONE%";

/// Values of the placeholders at one filter chain.
pub(super) struct Values<'a> {
    pub(super) mesh: &'a str,
    pub(super) zone: &'a str,
    pub(super) workload: &'a str,
    source_service: &'a str,
    source_address: &'a str,
    source_address_and_port: &'a str,
    destination_service: &'a str,
    traffic_direction: &'a str,
}

impl<'a> Values<'a> {
    /// Kuma writes `unknown` for the source service of inbounds, and the address of the server for the source address.
    pub(super) fn of_inbound(inbound: &Inbound<'a>, mtls: bool) -> Self {
        let own = fact(inbound.facts, ProxyFact::Service);
        let destinations = [inbound.service, own, UNKNOWN];
        Self {
            mesh: inbound.mesh,
            zone: fact(inbound.facts, ProxyFact::Zone),
            workload: fact(inbound.facts, ProxyFact::Workload),
            source_service: if mtls { CALLER } else { UNKNOWN },
            source_address: "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%",
            source_address_and_port: "%DOWNSTREAM_REMOTE_ADDRESS%",
            destination_service: destinations.into_iter().find(|name| !name.is_empty()).unwrap_or(UNKNOWN),
            traffic_direction: "INBOUND",
        }
    }

    pub(super) fn of_outbound(outbound: &Outbound<'a>) -> Self {
        Self {
            mesh: outbound.mesh,
            zone: fact(outbound.facts, ProxyFact::Zone),
            workload: fact(outbound.facts, ProxyFact::Workload),
            source_service: outbound.facts.get(&ProxyFact::Service).map_or(UNKNOWN, |service| service),
            source_address: OWN_ADDRESS,
            source_address_and_port: OWN_ADDRESS_AND_PORT,
            destination_service: match outbound.destination {
                Destination::Service(name) | Destination::Resource(name) | Destination::External(name) => name,
                Destination::Outside => OUTSIDE,
            },
            traffic_direction: "OUTBOUND",
        }
    }

    /// Replaces text, as Kuma does: also in `%%KUMA_MESH%%`, which is no placeholder for Envoy.
    pub(super) fn fill(&self, format: &str) -> String {
        let placeholders = [
            (SOURCE_SERVICE, self.source_service),
            (WORKLOAD, self.workload),
            (ZONE, self.zone),
            ("%KUMA_MESH%", self.mesh),
            ("%KUMA_SOURCE_ADDRESS%", self.source_address_and_port),
            ("%KUMA_SOURCE_ADDRESS_WITHOUT_PORT%", self.source_address),
            ("%KUMA_DESTINATION_SERVICE%", self.destination_service),
            ("%KUMA_TRAFFIC_DIRECTION%", self.traffic_direction),
        ];
        let mut text = Cow::Borrowed(format);
        for (placeholder, value) in placeholders {
            if text.contains(placeholder) {
                text = Cow::Owned(text.replace(placeholder, value));
            }
        }
        text.into_owned()
    }
}

/// Facts that a format contains. An inbound without a service has that of the proxy as its destination.
pub(super) fn facts(format: &str) -> BTreeSet<ProxyFact> {
    let placeholders = [
        (SOURCE_SERVICE, ProxyFact::Service),
        ("%KUMA_DESTINATION_SERVICE%", ProxyFact::Service),
        (WORKLOAD, ProxyFact::Workload),
        (ZONE, ProxyFact::Zone),
    ];
    placeholders.into_iter().filter(|(text, _)| format.contains(text)).map(|(_, fact)| fact).collect()
}

fn fact(facts: &ProxyFacts, fact: ProxyFact) -> &str {
    facts.get(&fact).map_or("", |value| value)
}
