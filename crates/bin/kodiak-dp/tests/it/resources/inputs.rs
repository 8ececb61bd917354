//! A proxy `web-1` of the mesh `default`, with all of its resources.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use kodiak_model::{InboundTls, Protocol};
use kodiak_policies::passthrough::{IpRange, OutsideDestination, PassthroughMatch, PassthroughProtocol};
use kodiak_xds::bootstrap::{Bootstrap, ControlPlane, XdsProtocol};
use kodiak_xds::input::{
    Admin, AdminCertificate, AdminEndpoint, Assignment, Callee, Carried, Cas, DnsRecord, DnsTable, DynamicConfig,
    Endpoint, Identity, Inbound, OutboundCluster, OutboundListener, Peer, ProbeEndpoint, Probes, Readiness, Shape,
    Tags, TlsParameters, TlsSource, TrustedCas, UpstreamProtocol, Validation,
};
use kodiak_xds::node::{NodeMetadata, features};
use kodiak_xds::{dns, names};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType};

/// The certificate of one service of the mesh, and its CA.
pub(super) struct Certificates {
    pub(super) authority: String,
    pub(super) certificate: String,
    key: String,
}

impl Certificates {
    /// Each with a CA of its own.
    pub(super) fn make() -> Self {
        Self::make_for(["web"]).remove(0)
    }

    /// All of one CA.
    pub(super) fn make_for<const N: usize>(services: [&str; N]) -> Vec<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Certificates without a subject of their own would look self-signed.
        params.distinguished_name.push(DnType::CommonName, "authority");
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let make = |service| {
            let mut params = CertificateParams::default();
            let uri = names::service_identity("default", service);
            params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
            let key = KeyPair::generate().unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap().pem();
            Self { authority: authority.pem(), certificate, key: key.serialize_pem() }
        };
        services.map(make).into()
    }

    pub(super) fn identity(&self) -> Identity {
        Identity { certificate: self.certificate.as_str().into(), key: self.key.as_str().into() }
    }
}

/// Where it is does not matter, and the port is free.
pub(super) fn any_admin() -> AdminEndpoint {
    AdminEndpoint::Address { address: "127.0.0.1".to_owned(), port: 0 }
}

pub(super) fn bootstrap(host: &str, folder: &Path, made: &Certificates) -> Bootstrap {
    let workdir = folder.to_str().unwrap().to_owned();
    let admin_socket = names::admin_socket(&workdir);
    Bootstrap {
        mesh: "default".to_owned(),
        name: "web-1".to_owned(),
        cluster: "web".to_owned(),
        metadata: NodeMetadata {
            features: BTreeSet::from([features::DELTA, features::REUSE_PORT].map(str::to_owned)),
            workdir: Some(workdir),
            admin_socket: Some(admin_socket.clone()),
            ..NodeMetadata::default()
        },
        control_plane: ControlPlane { host: host.to_owned(), port: 5678, ca: made.authority.clone() },
        token: Some("token".to_owned()),
        protocol: XdsProtocol::Delta,
        health: true,
        load_reports: true,
        admin: AdminEndpoint::Socket(admin_socket),
    }
}

pub(super) fn inbound(protocol: Protocol, port: u32, accept: InboundTls, shape: Shape) -> Inbound {
    Inbound {
        mesh: "default".into(),
        address: "127.0.0.1".to_owned(),
        port,
        workload_address: "10.0.0.5".to_owned(),
        workload_port: port,
        cluster: format!("localhost:{port}").into(),
        section: port.to_string(),
        protocol,
        tags: tags("web"),
        accept,
        plaintext_callers: None,
        tls: TlsSource::ControlPlane,
        tls_parameters: TlsParameters::default(),
        entries: Arc::default(),
        facts: Arc::default(),
        shape,
    }
}

pub(super) fn outbound(protocol: Protocol, port: u32, bind: bool) -> OutboundListener {
    OutboundListener {
        address: "127.0.0.1".to_owned(),
        port,
        mesh: "default".into(),
        name: names::outbound_listener("127.0.0.1", port).into(),
        callee: Callee::Service(Arc::new(tags("backend"))),
        route_names: Arc::default(),
        cluster: "backend".into(),
        protocol,
        carried: Carried::by(protocol),
        confs: Arc::default(),
        facts: Arc::default(),
        backends: Arc::default(),
        bind,
        shape: Shape { transparent: !bind, reuse_port: true, ipv6: true },
    }
}

pub(super) fn service(name: &str, mtls: bool) -> OutboundCluster {
    OutboundCluster {
        name: name.into(),
        mesh: "default".into(),
        peer: mtls.then(|| Arc::new(Peer { sni: names::sni(&tags(name), "default"), ..Peer::default() })),
        upstream: UpstreamProtocol::Proxy,
        confs: Arc::default(),
    }
}

/// Of the inbounds of a proxy.
pub(super) fn callers(made: &Certificates) -> Validation {
    validation(made, names::validation_secret("default"), Vec::new())
}

/// Of the cluster of a service.
pub(super) fn servers(name: &str, made: &Certificates) -> Validation {
    let accepted = vec![names::service_identity("default", name)];
    validation(made, names::server_validation_secret("default", name), accepted)
}

fn validation(made: &Certificates, name: String, accepted: Vec<String>) -> Validation {
    let trusted = TrustedCas::new(Cas::Mesh { mesh: "default".into(), roots: made.authority.as_str().into() });
    Validation { name: name.into(), trusted, accepted }
}

pub(super) fn assignment(cluster: &str) -> Assignment {
    let endpoint = |priority, zone: &str| Endpoint {
        priority,
        zone: zone.into(),
        address: "10.0.0.5".into(),
        port: 8080,
        weight: 1,
        tags: Arc::new(Tags::from([("kuma.io/zone".to_owned(), zone.to_owned())])),
        ..Endpoint::default()
    };
    let endpoints = [endpoint(0, "east"), endpoint(1, "west")].into();
    Assignment { cluster: cluster.into(), endpoints, overprovisioning_factor: None }
}

pub(super) fn admin(endpoint: AdminEndpoint, made: &Certificates) -> Admin {
    Admin {
        address: "127.0.0.1".to_owned(),
        port: 9901,
        endpoint,
        readiness: Some(Readiness::Port(9902)),
        certificate: Some(Arc::new(AdminCertificate {
            certificate: made.certificate.clone(),
            key: made.key.clone(),
            client_ca: made.authority.clone(),
            client_name: "kodiak-cp".to_owned(),
        })),
        reuse_port: true,
    }
}

pub(super) fn probes() -> Probes {
    let probe = |cluster: Option<&str>| ProbeEndpoint {
        path: format!("/8080/{}", cluster.unwrap_or("elsewhere")),
        inbound_path: "/healthz".to_owned(),
        inbound_port: 8080,
        cluster: cluster.map(Into::into),
    };
    Probes {
        address: "127.0.0.1".to_owned(),
        port: 9000,
        endpoints: vec![probe(Some("localhost:8080")), probe(None)],
        shape: Shape { transparent: true, reuse_port: true, ipv6: false },
    }
}

pub(super) fn dns_table() -> DnsTable {
    let record = |name: &str, last| DnsRecord { name: name.into(), address: Ipv4Addr::new(240, 0, 0, last) };
    DnsTable { records: [record("backend.mesh", 1), record("web.mesh", 2)].into(), domains: Arc::default(), ipv6: true }
}

pub(super) fn dynamic_config(socket: String) -> DynamicConfig {
    DynamicConfig { socket, documents: [(dns::PATH, Arc::new(dns::document(&dns_table())))].into() }
}

fn tags(service: &str) -> Tags {
    Tags::from([("kuma.io/service".to_owned(), service.to_owned())])
}

/// Destinations outside the mesh of all kinds and protocols, with and without a port: many of them include others.
pub(super) fn outside_matches() -> Arc<[PassthroughMatch]> {
    let protocols = [
        PassthroughProtocol::Tcp,
        PassthroughProtocol::Tls,
        PassthroughProtocol::Http,
        PassthroughProtocol::Http2,
        PassthroughProtocol::Grpc,
    ];
    let ranges = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "240.0.0.0/4", "::/0", "fd00::/8", "fd00::1"];
    let range = |text: &'static str| (OutsideDestination::Range(IpRange::parse(text).unwrap()), text);
    let domain = |text: &'static str| (OutsideDestination::Domain(text.into()), text);
    let destinations: Vec<_> = ranges
        .into_iter()
        .map(range)
        .chain(["example.com", "*.example.com", "a.example.com"].map(domain))
        .chain([(OutsideDestination::AnyDomain, "*")])
        .collect();
    let mut all = BTreeSet::new();
    for (n, (destination, value)) in destinations.into_iter().enumerate() {
        for (m, protocol) in protocols.into_iter().enumerate() {
            // Not all at all ports: a chain that accepts everything would hide the others.
            let ports = [None, Some(80), Some(443), Some(8080)];
            for port in ports.into_iter().skip((n + m) % 4).step_by(2) {
                let (destination, value) = (destination.clone(), value.into());
                all.insert(PassthroughMatch { destination, port, protocol, value });
            }
        }
    }
    let (destination, value) = range("10.1.2.4");
    let (port, protocol) = (Some(3306), PassthroughProtocol::Mysql);
    all.insert(PassthroughMatch { destination, port, protocol, value: value.into() });
    all.into_iter().collect()
}
