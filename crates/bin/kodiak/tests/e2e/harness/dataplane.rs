//! Dataplane resources.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use serde_json::{Value, json};

use super::{MESH, Service, addresses};

/// Ports of the MeshServices of a workload.
const HTTP: u16 = 8080;
const TCP: u16 = 8081;

/// Dataplane, as a user would write it.
#[derive(Clone)]
pub(crate) struct Dataplane {
    pub(crate) name: String,
    pub(crate) address: Ipv4Addr,
    inbounds: Vec<Value>,
    /// Where `backend` is called.
    pub(crate) outbound: Option<SocketAddr>,
    /// Where `backend-tcp` is called.
    pub(crate) outbound_tcp: Option<SocketAddr>,
    /// Other services that are called.
    others: Vec<Value>,
    labels: Value,
    /// The MeshService that `outbound` and `outbound_tcp` lead to, instead of `backend`.
    calls: Option<String>,
    reachable_backends: Option<Value>,
    direct_access: Vec<String>,
    /// Written down at the control plane, and not brought by its proxy: it stays when the proxy is gone.
    pub(super) is_stored: bool,
}

impl Dataplane {
    /// Serves what this workload serves: as `backend` over HTTP, and as `backend-tcp` for those who see only bytes.
    pub(crate) fn serving(name: &str, workload: &Service) -> Self {
        Self::serving_as("backend", name, workload)
    }

    /// The same, as another service.
    pub(crate) fn serving_as(service: &str, name: &str, workload: &Service) -> Self {
        let address = addresses::loopback();
        let tcp = format!("{service}-tcp");
        let served = [(service, "http", workload.address), (&tcp, "tcp", workload.address_tcp)];
        let inbounds = served.map(|(service, protocol, served)| {
            json!({
                "port": addresses::port(address),
                "serviceAddress": served.ip(),
                "servicePort": served.port(),
                "tags": { "kuma.io/service": service, "kuma.io/protocol": protocol },
            })
        });
        Self { name: name.to_owned(), address, inbounds: inbounds.into(), ..Self::at(name, address) }
    }

    /// Calls `backend` and `backend-tcp`, and serves nothing that anybody calls.
    pub(crate) fn calling(name: &str) -> Self {
        let address = addresses::loopback();
        let outbound = || Some(SocketAddr::from((address, addresses::port(address))));
        Self { outbound: outbound(), outbound_tcp: outbound(), ..Self::at(name, address) }
    }

    /// At this address, and calling others by their names.
    pub(crate) fn at(name: &str, address: Ipv4Addr) -> Self {
        Self::listening(name, SocketAddrV4::new(address, addresses::port(address)))
    }

    /// At this address and port, which need not be of this machine.
    pub(crate) fn listening(name: &str, inbound: SocketAddrV4) -> Self {
        let address = *inbound.ip();
        let inbound = json!({ "port": inbound.port(), "tags": { "kuma.io/service": name } });
        Self {
            name: name.to_owned(),
            address,
            inbounds: vec![inbound],
            outbound: None,
            outbound_tcp: None,
            others: Vec::new(),
            labels: json!({}),
            calls: None,
            reachable_backends: None,
            direct_access: Vec::new(),
            is_stored: false,
        }
    }

    /// Serves `service` at this address and port, over HTTP.
    pub(crate) fn serving_at(service: &str, name: &str, inbound: SocketAddrV4, workload: &Service) -> Self {
        Self::in_front_of(workload.address, service, name, inbound)
    }

    /// The same, for a workload of another process.
    pub(crate) fn in_front_of(served: SocketAddr, service: &str, name: &str, inbound: SocketAddrV4) -> Self {
        let tags = json!({ "kuma.io/service": service, "kuma.io/protocol": "http" });
        let inbounds = vec![json!({
            "port": inbound.port(), "serviceAddress": served.ip(), "servicePort": served.port(), "tags": tags,
        })];
        Self { inbounds, ..Self::listening(name, inbound) }
    }

    /// On the same ports as another one, as instances of one service are.
    pub(crate) fn beside(mut self, other: &Self) -> Self {
        for (own, other) in self.inbounds.iter_mut().zip(&other.inbounds) {
            own["port"] = other["port"].clone();
        }
        self
    }

    /// Serves what this workload serves, and calls the MeshServices of `peer` over HTTP and TCP. An administrator wrote it,
    /// and labelled it with its workload.
    pub(crate) fn workload(name: &str, workload: &Service, peer: &str) -> Self {
        let mut dataplane = Self::serving_as(name, name, workload);
        let address = dataplane.address;
        let outbound = || Some(SocketAddr::from((address, addresses::port(address))));
        (dataplane.outbound, dataplane.outbound_tcp) = (outbound(), outbound());
        dataplane.calls = Some(peer.to_owned());
        for (inbound, port) in dataplane.inbounds.iter_mut().zip([HTTP, TCP]) {
            inbound["port"] = json!(port);
        }
        dataplane.labelled("kuma.io/workload", name).stored()
    }

    /// Another instance of the same service.
    pub(crate) fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    pub(crate) fn unlabelled(mut self) -> Self {
        self.labels = json!({});
        self
    }

    pub(crate) fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels[key] = json!(value);
        self
    }

    pub(crate) fn stored(mut self) -> Self {
        self.is_stored = true;
        self
    }

    /// With traffic redirected, and only these called at virtual addresses.
    pub(crate) fn reaching(mut self, refs: &Value) -> Self {
        self.reachable_backends = Some(json!({ "refs": refs }));
        self
    }

    /// With traffic redirected, and instances of these services called at their own addresses.
    pub(crate) fn calling_directly(mut self, services: &[&str]) -> Self {
        self.direct_access = services.iter().map(|service| (*service).to_owned()).collect();
        self
    }

    /// Calls what this `backendRef` means too.
    pub(crate) fn also_calling_ref(mut self, reference: &Value) -> Self {
        let port = addresses::port(self.address);
        self.others.push(json!({ "address": self.address, "port": port, "backendRef": reference }));
        self
    }

    /// Where the others are called, in the order in which they were named.
    pub(crate) fn other(&self, index: usize) -> SocketAddr {
        self.address_of(&self.others[index])
    }

    /// Calls this service too.
    pub(crate) fn also_calling(mut self, service: &str) -> Self {
        let port = addresses::port(self.address);
        let tags = json!({ "kuma.io/service": service });
        self.others.push(json!({ "address": self.address, "port": port, "tags": tags }));
        self
    }

    /// With one more tag, wherever it has tags.
    pub(crate) fn tagged(mut self, key: &str, value: &str) -> Self {
        for inbound in &mut self.inbounds {
            inbound["tags"][key] = value.into();
        }
        self
    }

    /// With the workload of `backend` here, and a probe of it.
    pub(crate) fn probed(mut self, workload: SocketAddr) -> Self {
        let inbound = &mut self.inbounds[0];
        inbound["serviceAddress"] = json!(workload.ip());
        inbound["servicePort"] = json!(workload.port());
        inbound["serviceProbe"] = json!({ "tcp": {} });
        self
    }

    /// Where Envoy takes requests for the workload.
    pub(crate) fn inbound(&self) -> SocketAddr {
        self.address_of(&self.inbounds[0])
    }

    /// Where Envoy takes connections for the workload, and does not know what they carry.
    pub(crate) fn inbound_tcp(&self) -> SocketAddr {
        self.address_of(&self.inbounds[1])
    }

    fn address_of(&self, inbound: &Value) -> SocketAddr {
        SocketAddr::from((self.address, u16::try_from(inbound["port"].as_u64().unwrap()).unwrap()))
    }

    pub(crate) fn document(&self) -> Value {
        let outbounds = [("backend", self.outbound), ("backend-tcp", self.outbound_tcp)];
        let outbounds = outbounds.into_iter().filter_map(|(service, outbound)| {
            let outbound = outbound?;
            let (key, destination) = match &self.calls {
                None => ("tags", json!({ "kuma.io/service": service })),
                Some(peer) => {
                    let (name, port) =
                        (service.replace("backend", peer), if service == "backend" { HTTP } else { TCP });
                    ("backendRef", json!({ "kind": "MeshService", "name": name, "port": port }))
                }
            };
            let mut written = json!({ "address": outbound.ip(), "port": outbound.port() });
            written[key] = destination;
            Some(written)
        });
        let outbounds: Vec<_> = outbounds.chain(self.others.iter().cloned()).collect();
        let mut document = json!({
            "type": "Dataplane", "mesh": MESH, "name": self.name,
            "networking": { "address": self.address, "inbound": self.inbounds, "outbound": outbounds },
        });
        if self.labels.as_object().is_some_and(|labels| !labels.is_empty()) {
            document["labels"] = self.labels.clone();
        }
        if let Some(backends) = &self.reachable_backends {
            document["networking"]["transparentProxying"] = json!({ "reachableBackends": backends });
        }
        if !self.direct_access.is_empty() {
            document["networking"]["transparentProxying"]["directAccessServices"] = json!(self.direct_access);
        }
        document
    }
}
