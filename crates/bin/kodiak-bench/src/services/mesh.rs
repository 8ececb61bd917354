//! A mesh that scales evenly: each service has the same number of instances, and each instance calls the same number of
//! services.

use std::sync::Arc;

use kodiak_model::{Labels, ProxyKey, kinds::mesh::Mesh, labels};
use kodiak_rules::Proxy;
use kodiak_services::hostnames::Generator;
use kodiak_terminal::usage;
use kodiak_xds::node::{NodeMetadata, Redirect, TransparentProxy, features};
use serde_json::{Value, json};

use super::world::NOW;

pub(super) const MESH: &str = "default";
pub(super) const ZONE: &str = "default";
/// Reachable services of a proxy.
pub(super) const CALLS: usize = 10;

#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) services: usize,
    pub(super) per_service: usize,
}

/// Health of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Health {
    Ready,
    NotReady,
}

impl Size {
    /// Rounds the number of Dataplanes down to whole services.
    pub(super) fn of(dataplanes: usize, per_service: usize) -> anyhow::Result<Self> {
        let services = dataplanes / per_service;
        if services <= CALLS {
            return Err(usage(format!(
                "{dataplanes} Dataplanes are too few: with {per_service} in each service they serve {services}, and \
                 each calls {CALLS} other services; give at least {}",
                (CALLS + 1) * per_service,
            )));
        }
        Ok(Self { services, per_service })
    }

    pub(super) fn dataplanes(self) -> usize {
        self.services * self.per_service
    }

    /// Proxies that call one service.
    pub(super) fn callers(self) -> usize {
        CALLS * self.per_service
    }

    pub(super) fn proxy(self, n: usize) -> anyhow::Result<Arc<Proxy>> {
        let address = format!("10.{}.{}.{}", n / 62_500 % 250, n / 250 % 250, n % 250 + 1);
        self.instance(&format!("dp-{n}"), &address, n % self.services, Health::Ready)
    }

    /// Additional instance of a service, for the measurement.
    pub(super) fn guest(self, n: usize, health: Health) -> anyhow::Result<Arc<Proxy>> {
        let address = format!("172.16.{}.{}", n / 250 % 250, n % 250 + 1);
        // Spread over the mesh, with varying callers.
        let service = n.wrapping_mul(7919) % self.services;
        self.instance(&format!("guest-{n}"), &address, service, health)
    }

    fn instance(self, name: &str, address: &str, service: usize, health: Health) -> anyhow::Result<Arc<Proxy>> {
        let called: Vec<String> = (1..=CALLS).map(|each| self.name(service + each)).collect();
        let backends: Vec<Value> = called.iter().map(|name| json!({ "kind": "MeshService", "name": name })).collect();
        let state = if health == Health::Ready { "Ready" } else { "NotReady" };
        let tags = json!({ "kuma.io/service": self.name(service), "kuma.io/protocol": "http", "kuma.io/zone": ZONE });
        let dataplane = json!({ "networking": {
            "address": address,
            "inbound": [{ "port": 8080, "state": state, "tags": tags }],
            "transparentProxying": {
                "redirectPortInbound": 15006,
                "redirectPortOutbound": 15001,
                "reachableServices": called,
                "reachableBackends": { "refs": backends },
            },
        } });
        let labels = [(labels::ZONE, ZONE), (labels::ORIGIN, "zone")];
        let labels: Labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        let (ProxyKey { mesh, name }, dataplane) = (ProxyKey::new(MESH, name), serde_json::from_value(dataplane)?);
        Ok(Arc::new(Proxy { mesh, name, labels: Arc::new(labels), dataplane: Arc::new(dataplane), admission: None }))
    }

    /// Wraps around after the last service.
    fn name(self, service: usize) -> String {
        format!("svc-{}", service % self.services)
    }
}

pub(super) fn mesh() -> anyhow::Result<Arc<Mesh>> {
    let spec = json!({
        "meshServices": { "mode": "Everywhere" },
        "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] },
    });
    Ok(Arc::new(serde_json::from_value(spec)?))
}

/// Resource as in a new control plane.
pub(super) fn generator() -> anyhow::Result<Generator> {
    let spec = json!({
        "selector": { "meshService": { "matchLabels": { labels::ORIGIN: "zone" } } },
        "template": "{{ .DisplayName }}.svc.mesh.local",
    });
    Ok(Generator { labels: Arc::default(), created: NOW, spec: serde_json::from_value(spec)? })
}

/// Metadata of a transparent proxy with DNS.
pub(super) fn metadata() -> NodeMetadata {
    let enabled = |port: u32| Redirect { enabled: true, port: Some(port) };
    let known = [
        features::DELTA,
        features::REUSE_PORT,
        features::STRICT_INBOUND_PORTS,
        features::EMBEDDED_DNS,
        features::TRANSPARENT_PROXY_IN_METADATA,
    ];
    NodeMetadata {
        features: known.map(str::to_owned).into(),
        workdir: Some(".".to_owned()),
        transparent_proxy: Some(TransparentProxy {
            inbound: enabled(15006),
            outbound: enabled(15001),
            dns: enabled(15053),
            ip_family_mode: Some("ipv4".to_owned()),
        }),
        ..NodeMetadata::default()
    }
}
