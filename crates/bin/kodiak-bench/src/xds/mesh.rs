//! Mesh of the benchmark: services, their instances, and changes.

use std::fmt::Write as _;

use kodiak_envoy::envoy::config::core::v3::Node;
use kodiak_xds::{
    names,
    node::{NodeMetadata, Redirect, TransparentProxy, features},
};
use serde_json::{Value, json};

pub(super) const MESH: &str = "default";
/// Prefix that tells clusters of services from other clusters of a proxy.
pub(super) const SERVICE_PREFIX: &[u8] = b"svc-";
/// Instance of the first service without a proxy. A new address of it changes only the endpoints of that service.
pub(super) const MOVING: &str = "moving";

/// Dataplanes of all services and proxies: one per service, and more if there are more proxies.
pub(super) fn dataplanes(proxies: usize, services: usize) -> String {
    let mut text = String::new();
    for n in 0..proxies.max(services) {
        let _ = writeln!(text, "---\n{}", dataplane_of(n, services));
    }
    let _ = writeln!(text, "---\n{}", moving(0));
    text
}

/// Dataplanes of the services that no arriving proxy provides. Empty if every service has a proxy.
pub(super) fn dataplanes_without_proxy(proxies: usize, services: usize) -> String {
    let mut text = String::new();
    for n in proxies..services {
        let _ = writeln!(text, "---\n{}", dataplane_of(n, services));
    }
    text
}

/// Dataplane of a proxy.
pub(super) fn dataplane_of(n: usize, services: usize) -> Value {
    dataplane(&name(n), &address(n), 8080, n % services)
}

/// The instance with its address after this many changes.
pub(super) fn moving(moves: usize) -> Value {
    dataplane(MOVING, "10.255.0.1", 20_000 + moves, 0)
}

fn dataplane(name: &str, address: &str, port: usize, service: usize) -> Value {
    json!({
        "type": "Dataplane",
        "mesh": MESH,
        "name": name,
        "labels": { "app": format!("svc-{service}") },
        "networking": {
            "address": address,
            "inbound": [{
                "port": port,
                "servicePort": 18080,
                "tags": { "kuma.io/service": format!("svc-{service}"), "kuma.io/protocol": "http", "version": "v1" },
            }],
        },
    })
}

pub(super) fn mesh(mtls: bool, passthrough: bool) -> Value {
    let mut mesh = json!({
        "type": "Mesh",
        "name": MESH,
        "networking": { "outbound": { "passthrough": passthrough } },
    });
    if mtls {
        mesh["mtls"] = json!({ "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] });
    }
    mesh
}

/// Metadata of a proxy, as with `kodiak dp run --transparent-proxy`. A proxy that arrives provides its Dataplane.
pub(super) fn node(n: usize, dns: bool, dataplane: Option<&Value>) -> Node {
    let workdir = ".".to_owned();
    let enabled = |port: u32| Redirect { enabled: true, port: Some(port) };
    let metadata = NodeMetadata {
        features: [
            features::DELTA,
            features::REUSE_PORT,
            features::STRICT_INBOUND_PORTS,
            features::EMBEDDED_DNS,
            features::TRANSPARENT_PROXY_IN_METADATA,
        ]
        .map(str::to_owned)
        .into(),
        admin_port: Some(9901),
        admin_socket: Some(names::admin_socket(&workdir)),
        readiness_port: Some(9902),
        workdir: Some(workdir),
        resource: dataplane.map(Value::to_string),
        transparent_proxy: Some(TransparentProxy {
            inbound: enabled(15006),
            outbound: enabled(15001),
            dns: if dns { enabled(15053) } else { Redirect::default() },
            ip_family_mode: Some("ipv4".to_owned()),
        }),
        ..NodeMetadata::default()
    };
    Node { id: format!("{MESH}.{}", name(n)), metadata: Some(metadata.write()), ..Node::default() }
}

fn name(n: usize) -> String {
    format!("dp-{n}")
}

fn address(n: usize) -> String {
    format!("10.{}.{}.{}", n / 62_500 % 250, n / 250 % 250, n % 250 + 1)
}

/// Whether it is the listener of a service.
pub(super) fn is_service_listener(name: &[u8]) -> bool {
    let passthrough = [names::OUTBOUND_PASSTHROUGH_IPV4, names::OUTBOUND_PASSTHROUGH_IPV6];
    name.starts_with(b"outbound:") && passthrough.iter().all(|other| other.as_bytes() != name)
}
