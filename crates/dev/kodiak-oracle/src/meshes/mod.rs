//! Random small meshes, as user documents. Every document is valid.
//!
//! [`meshes`] has services by `kuma.io/service` and policies about them; [`whole_meshes`] adds every kind of destination,
//! proxies with several inbounds, gateways, and policies about all of them; [`all_meshes`] adds MeshIdentities, TLS and
//! permissions of single inbounds, and modes of reachability.

mod extras;
mod object_policies;
mod policies;
mod security;

use std::collections::{BTreeMap, BTreeSet};

use kodiak_model::labels::REACHABILITY;
use kodiak_policies::mesh_traffic_permission;
use kodiak_testkit::simulate::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use extras::Extras;
use policies::Written;
use security::Security;

pub type Tags = BTreeMap<String, String>;

pub const MESH: &str = "default";
/// Of the first inbound of every proxy.
pub const MAIN_PORT: u16 = 8080;
pub const SECOND_PORT: u16 = 8081;
/// Of listed outbounds.
const FIRST_PORT: u16 = 10_000;
/// One is a prefix of another.
pub const SERVICES: &[&str] = &["a", "ab", "b"];
pub const VERSIONS: &[&str] = &["1", "2"];
pub const PATHS: &[&str] = &["/", "/a", "/ab", "/a/", "/a/b", "/b"];

#[derive(Debug, Clone)]
pub struct Mesh {
    mtls: Mtls,
    pub sidecars: Vec<Sidecar>,
    /// Named by their index.
    policies: Vec<Written>,
    extras: Extras,
    security: Security,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mtls {
    Off,
    Permissive,
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speaks {
    Http,
    Http2,
    Grpc,
    Tcp,
}

/// One workload of one service.
#[derive(Debug, Clone)]
pub struct Sidecar {
    pub name: String,
    pub address: String,
    pub tags: Tags,
    pub speaks: Speaks,
    /// Tags of a second inbound, at [`SECOND_PORT`].
    pub second: Option<Tags>,
    labels: Tags,
    /// Its outbounds; without a list its connections are redirected.
    listed: Option<Vec<Tags>>,
    /// Its `reachableBackends`, if its connections are redirected.
    reachable: Option<Value>,
}

/// A destination, and its address at a proxy.
pub struct Outbound {
    pub tags: Tags,
    pub address: String,
    pub port: u16,
}

impl Mesh {
    pub fn documents(&self) -> Vec<Value> {
        let mtls =
            |mode| json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
        let mut mesh = json!({ "type": "Mesh", "name": MESH });
        match self.mtls {
            Mtls::Off => (),
            Mtls::Permissive => mesh["mtls"] = mtls("PERMISSIVE"),
            Mtls::Strict => mesh["mtls"] = mtls("STRICT"),
        }
        let mode = if self.security.is_exclusive() { Some("Exclusive") } else { self.extras.mode };
        if let Some(mode) = mode {
            mesh["meshServices"] = json!({ "mode": mode });
        }
        if let Some(mode) = self.security.mode {
            mesh["labels"] = json!({ REACHABILITY: mode });
        }
        let policies = self.policies.iter().enumerate().map(|(n, policy)| policy.document(n));
        let dataplanes = self.sidecars.iter().map(Sidecar::document);
        let others = self.extras.documents().into_iter().chain(self.security.documents());
        [mesh].into_iter().chain(dataplanes).chain(others).chain(policies).collect()
    }

    /// Whether callers have certificates.
    pub fn has_mtls(&self) -> bool {
        self.mtls != Mtls::Off
    }

    /// Outbounds of a proxy. Redirected connections use virtual IPs, in the order of service names.
    pub fn outbounds(&self, caller: &Sidecar) -> Vec<Outbound> {
        if let Some(listed) = &caller.listed {
            let outbound =
                |(tags, port): (&Tags, u16)| Outbound { tags: tags.clone(), address: "127.0.0.1".to_owned(), port };
            return listed.iter().zip(FIRST_PORT..).map(outbound).collect();
        }
        let names: BTreeSet<&str> = self.sidecars.iter().map(Sidecar::service).collect();
        let outbound = |(n, name)| Outbound { tags: service(name), address: format!("240.0.0.{n}"), port: 80 };
        names.into_iter().enumerate().map(outbound).collect()
    }

    /// `None` without a serving proxy.
    pub fn speaks(&self, service: &str) -> Option<Speaks> {
        let serving = self.sidecars.iter().find(|sidecar| sidecar.service() == service);
        serving.map(|sidecar| sidecar.speaks)
    }
}

impl Sidecar {
    pub fn service(&self) -> &str {
        &self.tags["kuma.io/service"]
    }

    pub fn has(&self, tags: &Tags) -> bool {
        tags.iter().all(|(key, value)| self.tags.get(key) == Some(value))
    }

    /// URI SANs of its certificate.
    pub fn uris(&self) -> Vec<String> {
        mesh_traffic_permission::uris(MESH, [&self.tags].into_iter().chain(&self.second))
    }

    pub fn is_redirected(&self) -> bool {
        self.listed.is_none()
    }

    fn document(&self) -> Value {
        let ports = [(MAIN_PORT, Some(&self.tags)), (SECOND_PORT, self.second.as_ref())];
        let inbound = ports.into_iter().filter_map(|(port, tags)| Some(json!({ "port": port, "tags": tags? })));
        let listed = self.listed.iter().flatten().zip(FIRST_PORT..);
        let outbound: Vec<Value> = listed.map(|(tags, port)| json!({ "port": port, "tags": tags })).collect();
        let mut networking =
            json!({ "address": self.address, "inbound": inbound.collect::<Vec<_>>(), "outbound": outbound });
        if self.is_redirected() {
            networking["transparentProxying"] = transparent_proxying();
            if let Some(list) = &self.reachable {
                networking["transparentProxying"]["reachableBackends"] = list.clone();
            }
        }
        json!({
            "type": "Dataplane", "mesh": MESH, "name": self.name, "labels": self.labels, "networking": networking,
        })
    }
}

fn transparent_proxying() -> Value {
    json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001, "ipFamilyMode": "IPv4" })
}

impl Speaks {
    pub fn http(self) -> bool {
        self != Self::Tcp
    }

    fn text(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Http2 => "http2",
            Self::Grpc => "grpc",
            Self::Tcp => "tcp",
        }
    }
}

fn service(name: &str) -> Tags {
    Tags::from([("kuma.io/service".to_owned(), name.to_owned())])
}

pub fn meshes() -> impl Strategy<Value = Mesh> {
    let outbound = (select(SERVICES), proptest::option::of(select(VERSIONS))).prop_map(|(name, version)| {
        service(name).into_iter().chain(version.map(|version| ("version".to_owned(), version.to_owned()))).collect()
    });
    let listed = proptest::option::weighted(0.3, vec(outbound, 1..4));
    let sidecars = vec((0..SERVICES.len(), select(VERSIONS), listed), 2..5);
    let mtls = select(&[Mtls::Off, Mtls::Permissive, Mtls::Strict, Mtls::Strict][..]);
    let speaks = select(&[Speaks::Http, Speaks::Http, Speaks::Http2, Speaks::Grpc, Speaks::Tcp][..]);
    let speaks = vec(speaks, SERVICES.len());
    (mtls, sidecars, speaks, vec(policies::written(), 0..8)).prop_map(|(mtls, sidecars, speaks, policies)| {
        let sidecar = |(n, (of, version, listed)): (usize, (usize, &str, Option<Vec<Tags>>))| {
            let more = [("kuma.io/protocol", speaks[of].text()), ("kuma.io/zone", "default"), ("version", version)];
            Sidecar {
                name: format!("proxy-{n}"),
                address: format!("10.0.0.{n}"),
                tags: service(SERVICES[of])
                    .into_iter()
                    .chain(more.map(|(key, value)| (key.to_owned(), value.to_owned())))
                    .collect(),
                speaks: speaks[of],
                second: None,
                labels: Tags::from([("app".to_owned(), SERVICES[of].to_owned())]),
                listed,
                reachable: None,
            }
        };
        let sidecars = sidecars.into_iter().enumerate().map(sidecar).collect();
        Mesh { mtls, sidecars, policies, extras: Extras::default(), security: Security::default() }
    })
}

/// With all kinds in force.
pub fn whole_meshes() -> impl Strategy<Value = Mesh> {
    let second = proptest::option::weighted(0.3, (select(SERVICES), select(&["http", "tcp"][..])));
    let sidecar = (second, proptest::option::of(select(extras::TEAMS)));
    let more = vec(object_policies::written(), 0..8);
    (meshes(), vec(sidecar, 5), extras::extras(), more).prop_map(|(mut mesh, sidecars, extras, more)| {
        for (sidecar, (second, team)) in mesh.sidecars.iter_mut().zip(sidecars) {
            sidecar.second = second.map(|(name, protocol)| {
                let more = [("kuma.io/protocol", protocol), ("kuma.io/zone", "default")];
                service(name).into_iter().chain(more.map(|(key, value)| (key.to_owned(), value.to_owned()))).collect()
            });
            sidecar.labels.extend(team.map(|team| ("team".to_owned(), team.to_owned())));
        }
        mesh.extras = extras;
        mesh.policies.extend(more);
        mesh
    })
}

/// With all kinds of security.
pub fn all_meshes() -> impl Strategy<Value = Mesh> {
    let more = vec(security::written(), 0..6);
    (whole_meshes(), security::security(), more).prop_map(|(mut mesh, (mtls, security), more)| {
        for (n, sidecar) in mesh.sidecars.iter_mut().enumerate() {
            sidecar.labels.extend(security.proxies[n].map(|mode| (REACHABILITY.to_owned(), mode.to_owned())));
            sidecar.reachable.clone_from(&security.lists[n]);
        }
        mesh.mtls = mtls;
        mesh.security = security;
        mesh.policies.extend(more);
        mesh
    })
}

pub fn requests() -> impl Strategy<Value = Vec<Request>> {
    let header = proptest::option::of(select(&["x", "xy", "z"][..]));
    let request = (select(&["GET", "PUT"][..]), select(PATHS), header, 0_u64..12);
    let request = request.prop_map(|(method, path, header, dice)| {
        let request = Request::get("host", path).method(method).dice(dice);
        header.map_or_else(|| request.clone(), |value| request.clone().header("x-h", value))
    });
    vec(request, 4)
}
