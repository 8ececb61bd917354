//! Destinations that are resources, hostnames, and gateways.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::{MAIN_PORT, MESH, SECOND_PORT, SERVICES, transparent_proxying};

/// Values of the label `team` of proxies and services.
pub(super) const TEAMS: &[&str] = &["one", "two"];
pub(super) const GROUPS: &[&str] = &["group-0", "group-1"];
pub(super) const OUTSIDE: &[&str] = &["outside-0", "outside-1"];
const PROTOCOLS: &[&str] = &["tcp", "http", "http", "http2", "grpc"];

#[derive(Debug, Clone, Default)]
pub(super) struct Extras {
    pub(super) mode: Option<&'static str>,
    /// Delegated gateways that are redirected, or not.
    gateways: Vec<bool>,
    /// By their names; missing ones are `None`.
    services: Vec<Option<Resource>>,
    groups: Vec<Option<Resource>>,
    outside: Vec<Option<Resource>>,
    generators: Vec<Option<&'static str>>,
}

#[derive(Debug, Clone)]
struct Resource {
    labels: Value,
    spec: Value,
}

impl Extras {
    pub(super) fn documents(&self) -> Vec<Value> {
        let Self { mode: _, gateways, services, groups, outside, generators } = self;
        let mut all: Vec<Value> = gateways.iter().enumerate().map(|(n, redirected)| gateway(n, *redirected)).collect();
        for (kind, names, documents) in [
            ("MeshService", SERVICES, services),
            ("MeshMultiZoneService", GROUPS, groups),
            ("MeshExternalService", OUTSIDE, outside),
        ] {
            for (name, document) in names.iter().zip(documents) {
                let Some(Resource { labels, spec }) = document else { continue };
                all.push(json!({ "type": kind, "mesh": MESH, "name": name, "labels": labels, "spec": spec }));
            }
        }
        let selectors = ["meshService", "meshExternalService", "meshMultiZoneService"];
        for (n, (selector, template)) in selectors.into_iter().zip(generators).enumerate() {
            let Some(template) = template else { continue };
            all.push(json!({
                "type": "HostnameGenerator", "name": format!("generator-{n}"),
                "spec": { "selector": { selector: {} }, "template": template },
            }));
        }
        all
    }
}

fn gateway(n: usize, redirected: bool) -> Value {
    let tags = json!({ "kuma.io/service": format!("gateway-{n}") });
    let mut networking = json!({ "address": format!("10.0.1.{n}"), "gateway": { "type": "DELEGATED", "tags": tags } });
    if redirected {
        networking["transparentProxying"] = transparent_proxying();
    } else {
        networking["outbound"] = json!([{ "port": 11_000, "tags": { "kuma.io/service": SERVICES[0] } }]);
    }
    json!({ "type": "Dataplane", "mesh": MESH, "name": format!("gateway-{n}"), "networking": networking })
}

pub(super) fn extras() -> impl Strategy<Value = Extras> {
    let modes = select(&["Disabled", "Everywhere", "Everywhere", "ReachableBackends", "Exclusive"][..]);
    let template = select(&["{{ .DisplayName }}.svc.local", "{{ .Name }}.{{ .Mesh }}.local", "same.local"][..]);
    (
        proptest::option::of(modes),
        vec(any::<bool>(), 0..2),
        vec(proptest::option::of(service()), SERVICES.len()),
        vec(proptest::option::weighted(0.3, group()), GROUPS.len()),
        vec(proptest::option::weighted(0.3, outside()), OUTSIDE.len()),
        vec(proptest::option::of(template), 3),
    )
        .prop_map(|(mode, gateways, services, groups, outside, generators)| Extras {
            mode,
            gateways,
            services,
            groups,
            outside,
            generators,
        })
}

fn labels() -> impl Strategy<Value = Value> {
    let team = proptest::option::of(select(TEAMS));
    team.prop_map(|team| team.map_or_else(|| json!({}), |team| json!({ "team": team })))
}

fn service() -> impl Strategy<Value = Resource> {
    let selector = prop_oneof![
        2 => select(SERVICES).prop_map(|service| json!({ "dataplaneTags": { "kuma.io/service": service } })),
        1 => select(SERVICES).prop_map(|app| json!({ "dataplaneLabels": { "matchLabels": { "app": app } } })),
        1 => select(TEAMS).prop_map(|team| json!({ "dataplaneLabels": { "matchLabels": { "team": team } } })),
        1 => (0..4).prop_map(|n| json!({ "dataplaneRef": { "name": format!("proxy-{n}") } })),
    ];
    let second = proptest::option::of(select(PROTOCOLS));
    (labels(), selector, select(PROTOCOLS), any::<bool>(), second).prop_map(
        |(labels, selector, protocol, named, second)| {
            let mut ports = vec![json!({ "port": 80, "targetPort": MAIN_PORT, "appProtocol": protocol })];
            if named {
                ports[0]["name"] = json!("main");
            }
            ports.extend(second.map(
                |protocol| json!({ "name": "second", "port": 81, "targetPort": SECOND_PORT, "appProtocol": protocol }),
            ));
            Resource { labels, spec: json!({ "selector": selector, "ports": ports }) }
        },
    )
}

fn group() -> impl Strategy<Value = Resource> {
    let selected = prop_oneof![
        select(TEAMS).prop_map(|team| json!({ "team": team })),
        select(SERVICES).prop_map(|name| json!({ "kuma.io/display-name": name })),
    ];
    (labels(), selected, select(PROTOCOLS)).prop_map(|(labels, selected, protocol)| {
        let ports = json!([{ "port": 80, "appProtocol": protocol }]);
        Resource { labels, spec: json!({ "selector": { "meshService": { "matchLabels": selected } }, "ports": ports }) }
    })
}

fn outside() -> impl Strategy<Value = Resource> {
    let address = select(&["192.0.2.1", "192.0.2.2", "outside.example"][..]);
    let endpoint = (address, proptest::option::of(0_u32..2));
    let endpoint = endpoint.prop_map(|(address, priority)| {
        let mut endpoint = json!({ "address": address, "port": 443 });
        if let Some(priority) = priority {
            endpoint["priority"] = json!(priority);
        }
        endpoint
    });
    let tls = prop_oneof![
        Just(json!({ "enabled": false })),
        Just(json!({ "enabled": true, "verification": { "mode": "SkipAll" } })),
        Just(json!({ "enabled": true, "verification": { "mode": "SkipCA", "serverName": "outside.example" } })),
    ];
    let protocol = select(&["tcp", "http", "http2", "grpc"][..]);
    (labels(), protocol, vec(endpoint, 1..3), proptest::option::of(tls)).prop_map(
        |(labels, protocol, endpoints, tls)| {
            let matching = json!({ "type": "HostnameGenerator", "port": 80, "protocol": protocol });
            let mut spec = json!({ "match": matching, "endpoints": endpoints });
            if let Some(tls) = tls {
                spec["tls"] = tls;
            }
            Resource { labels, spec }
        },
    )
}
