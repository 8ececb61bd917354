//! Random small meshes, as user documents.

use std::collections::{BTreeMap, BTreeSet};

use kodiak_policies::mesh_traffic_permission;
use kodiak_testkit::simulate::Request;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::policies::{self, Written};

pub(super) type Tags = BTreeMap<String, String>;

pub(super) const MESH: &str = "default";
/// Of listed outbounds.
const FIRST_PORT: u16 = 10_000;
/// One is a prefix of another.
pub(super) const SERVICES: &[&str] = &["a", "ab", "b"];
pub(super) const VERSIONS: &[&str] = &["1", "2"];
pub(super) const PATHS: &[&str] = &["/", "/a", "/ab", "/a/", "/a/b", "/b"];

#[derive(Debug, Clone)]
pub(super) struct Mesh {
    mtls: Mtls,
    pub(super) sidecars: Vec<Sidecar>,
    /// Named by their index.
    policies: Vec<Written>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mtls {
    Off,
    Permissive,
    Strict,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Speaks {
    Http,
    Http2,
    Grpc,
    Tcp,
}

/// One workload of one service.
#[derive(Debug, Clone)]
pub(super) struct Sidecar {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) tags: Tags,
    pub(super) speaks: Speaks,
    /// Its outbounds; without a list its connections are redirected.
    listed: Option<Vec<Tags>>,
}

/// A destination, and its address at a proxy.
pub(super) struct Outbound {
    pub(super) tags: Tags,
    pub(super) address: String,
    pub(super) port: u16,
}

impl Mesh {
    pub(super) fn documents(&self) -> Vec<Value> {
        let mtls =
            |mode| json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin", "mode": mode }] });
        let mut mesh = json!({ "type": "Mesh", "name": MESH });
        match self.mtls {
            Mtls::Off => (),
            Mtls::Permissive => mesh["mtls"] = mtls("PERMISSIVE"),
            Mtls::Strict => mesh["mtls"] = mtls("STRICT"),
        }
        let policies = self.policies.iter().enumerate().map(|(n, policy)| policy.document(n));
        let dataplanes = self.sidecars.iter().map(Sidecar::document);
        [mesh].into_iter().chain(dataplanes).chain(policies).collect()
    }

    /// Whether callers have certificates.
    pub(super) fn has_mtls(&self) -> bool {
        self.mtls != Mtls::Off
    }

    /// Outbounds of a proxy. Redirected connections use virtual IPs, in the order of service names.
    pub(super) fn outbounds(&self, caller: &Sidecar) -> Vec<Outbound> {
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
    pub(super) fn speaks(&self, service: &str) -> Option<Speaks> {
        let serving = self.sidecars.iter().find(|sidecar| sidecar.service() == service);
        serving.map(|sidecar| sidecar.speaks)
    }
}

impl Sidecar {
    pub(super) fn service(&self) -> &str {
        &self.tags["kuma.io/service"]
    }

    pub(super) fn has(&self, tags: &Tags) -> bool {
        tags.iter().all(|(key, value)| self.tags.get(key) == Some(value))
    }

    /// URI SANs of its certificate.
    pub(super) fn uris(&self) -> Vec<String> {
        mesh_traffic_permission::uris(MESH, [&self.tags])
    }

    pub(super) fn is_redirected(&self) -> bool {
        self.listed.is_none()
    }

    fn document(&self) -> Value {
        let inbound = json!([{ "port": 8080, "tags": self.tags }]);
        let listed = self.listed.iter().flatten().zip(FIRST_PORT..);
        let outbound: Vec<Value> = listed.map(|(tags, port)| json!({ "port": port, "tags": tags })).collect();
        json!({
            "type": "Dataplane", "mesh": MESH, "name": self.name, "labels": { "app": self.service() },
            "networking": { "address": self.address, "inbound": inbound, "outbound": outbound },
        })
    }
}

impl Speaks {
    pub(super) fn http(self) -> bool {
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

pub(super) fn meshes() -> impl Strategy<Value = Mesh> {
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
                listed,
            }
        };
        Mesh { mtls, sidecars: sidecars.into_iter().enumerate().map(sidecar).collect(), policies }
    })
}

pub(super) fn requests() -> impl Strategy<Value = Vec<Request>> {
    let header = proptest::option::of(select(&["x", "xy", "z"][..]));
    let request = (select(&["GET", "PUT"][..]), select(PATHS), header, 0_u64..12);
    let request = request.prop_map(|(method, path, header, dice)| {
        let request = Request::get("host", path).method(method).dice(dice);
        header.map_or_else(|| request.clone(), |value| request.clone().header("x-h", value))
    });
    vec(request, 4)
}
