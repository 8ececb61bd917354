//! Calls between two workloads, through generated configuration in wire format.

use std::sync::Arc;

use kodiak_model::policy::Conf;
use kodiak_model::{InboundTls, Protocol};
use kodiak_policies::{Entry, Source};
use kodiak_xds::input::{
    Assignment, Callee, Carried, Cas, Endpoint, Inbound, OutboundCluster, OutboundListener, OutsideTraffic,
    Passthrough, Peer, Shape, Tags, TlsParameters, TlsSource, TrustedCas, UpstreamProtocol, Validation,
};
use kodiak_xds::{encode, endpoints, inbound, names, outbound, passthrough, secrets};
use kodiak_xds_stream::{ResourceSet, TypeUrl};
use serde_json::json;

use super::*;
use crate::simulate::{Called, Workload, call};

const SHAPE: Shape = Shape { transparent: true, reuse_port: true, ipv6: false };

fn tags(service: &str) -> Tags {
    Tags::from([("kuma.io/service".to_owned(), service.to_owned())])
}

fn insert_validation(resources: &mut ResourceSet, name: String, accepted: Vec<String>) {
    let trusted = TrustedCas::new(Cas::Mesh { mesh: "default".into(), roots: "CA".into() });
    let secret = secrets::validation(&Validation { name: name.into(), trusted, accepted });
    resources.insert(TypeUrl::Secret, encode(&secret.name, &secret));
}

fn insert_passthrough(resources: &mut ResourceSet) {
    let input = Passthrough {
        inbound_port: 15006,
        outbound_port: 15001,
        ipv6: false,
        reuse_port: true,
        outside: OutsideTraffic::Allowed,
        inbound_ports: None,
        trimmed: None,
        mesh: "default".into(),
        confs: Arc::default(),
        facts: Arc::default(),
    };
    for listener in passthrough::listeners(&input) {
        resources.insert(TypeUrl::Listener, encode(&listener.name, &listener));
    }
    for cluster in passthrough::clusters(&input) {
        resources.insert(TypeUrl::Cluster, encode(&cluster.name, &cluster));
    }
}

/// Calls `backend` at 240.0.0.1:80, and passes through everything else.
fn caller(protocol: Protocol, mtls: bool) -> SimulatedProxy {
    let listener = outbound::listener(&OutboundListener {
        address: "240.0.0.1".to_owned(),
        port: 80,
        name: names::outbound_listener("240.0.0.1", 80).into(),
        callee: Callee::Service(Arc::new(tags("backend"))),
        route_names: Arc::default(),
        facts: Arc::default(),
        mesh: "default".into(),
        cluster: "backend".into(),
        protocol,
        carried: Carried::by(protocol),
        confs: Arc::default(),
        backends: Arc::default(),
        bind: false,
        shape: SHAPE,
    });
    let cluster = outbound::cluster(&OutboundCluster {
        name: "backend".into(),
        mesh: "default".into(),
        peer: mtls.then(|| Arc::new(Peer { sni: names::sni(&tags("backend"), "default"), ..Peer::default() })),
        upstream: UpstreamProtocol::Proxy,
        confs: Arc::default(),
    });
    let at = Endpoint {
        priority: 0,
        zone: "east".into(),
        address: "10.0.0.5".into(),
        port: 80,
        weight: 1,
        tags: Arc::new(tags("backend")),
        ..Endpoint::default()
    };
    let assignment = endpoints::assignment(&Assignment {
        cluster: "backend".into(),
        endpoints: [at].into(),
        overprovisioning_factor: None,
    });
    let mut resources = ResourceSet::default();
    insert_passthrough(&mut resources);
    resources.insert(TypeUrl::Listener, encode(&listener.name, &listener));
    resources.insert(TypeUrl::Cluster, encode(&cluster.name, &cluster));
    resources.insert(TypeUrl::Endpoint, encode(&assignment.cluster_name, &assignment));
    let accepted = vec![names::service_identity("default", "backend")];
    insert_validation(&mut resources, names::server_validation_secret("default", "backend"), accepted);
    SimulatedProxy::of(&resources).unwrap()
}

/// `backend` allows `web`, and no other caller.
fn callee(protocol: Protocol, accept: InboundTls) -> SimulatedProxy {
    let only_web = Entry {
        policy: "only-web".into(),
        source: Source::Matches(Vec::new()),
        conf: Conf::new(json!({ "allow": [{ "spiffeID": { "type": "Exact", "value": "spiffe://default/web" } }] })),
    };
    let input = Inbound {
        mesh: "default".into(),
        address: "10.0.0.5".to_owned(),
        port: 80,
        workload_address: "127.0.0.1".to_owned(),
        workload_port: 8080,
        cluster: "localhost:8080".into(),
        section: "80".to_owned(),
        protocol,
        tags: tags("backend"),
        accept,
        plaintext_callers: None,
        tls: TlsSource::ControlPlane,
        tls_parameters: TlsParameters::default(),
        entries: Arc::new([("MeshTrafficPermission", vec![only_web])].into()),
        facts: Arc::default(),
        shape: SHAPE,
    };
    let (listener, cluster) = (inbound::listener(&input), inbound::cluster(&input));
    let mut resources = ResourceSet::default();
    insert_validation(&mut resources, names::validation_secret("default"), Vec::new());
    insert_passthrough(&mut resources);
    resources.insert(TypeUrl::Listener, encode(&listener.name, &listener));
    resources.insert(TypeUrl::Cluster, encode(&cluster.name, &cluster));
    SimulatedProxy::of(&resources).unwrap()
}

/// Arguments: the caller, whether it uses mTLS, and the server with its accepted connections.
fn ask(who: &str, mtls: bool, answers: &str, accept: InboundTls, protocol: Protocol) -> Result<Called, Refusal> {
    let (from, to) = (caller(protocol, mtls), callee(protocol, accept));
    let uri = |service: &str| vec![format!("spiffe://default/{service}"), "kuma://env/dev".to_owned()];
    let (from_uris, to_uris) = (uri(who), uri(answers));
    let at = |endpoint: &crate::simulate::Endpoint| {
        let known = endpoint.address == "10.0.0.5";
        known.then_some(Workload { proxy: &to, uris: &to_uris })
    };
    let request = if protocol == Protocol::Http { get("/a/../b") } else { Request::bytes() };
    call(Workload { proxy: &from, uris: &from_uris }, at, "240.0.0.1", 80, &request)
}

#[test]
fn allowed_caller_reaches_the_application() {
    for protocol in [Protocol::Http, Protocol::Tcp] {
        for (mtls, accept) in [
            (true, InboundTls::Strict),
            (true, InboundTls::Permissive),
            (false, InboundTls::Permissive),
            (false, InboundTls::Plaintext),
        ] {
            let called = ask("web", mtls, "backend", accept, protocol).unwrap();
            let inbound = called.inbound.unwrap();
            assert_eq!(inbound.listener, "inbound:10.0.0.5:80");
            assert_eq!(inbound.ends_tls, mtls);
            let arrived = inbound.forwarded().unwrap();
            assert_eq!((arrived.cluster.as_str(), arrived.endpoints[0].port), ("localhost:8080", 8080));
            assert_eq!(
                arrived.http.as_ref().map(|http| http.path.as_str()),
                (protocol == Protocol::Http).then_some("/b")
            );
        }
    }
}

#[test]
fn caller_without_permission_is_denied() {
    for (protocol, status) in [(Protocol::Http, Some(403)), (Protocol::Tcp, None)] {
        for accept in [InboundTls::Strict, InboundTls::Permissive] {
            let refusal = ask("other", true, "backend", accept, protocol).unwrap_err();
            assert!(matches!(&refusal, Refusal::Denied { status: found, .. } if *found == status), "{refusal:?}");
        }
    }
}

#[test]
fn both_sides_must_agree_on_tls() {
    for protocol in [Protocol::Http, Protocol::Tcp] {
        let refused = |mtls, answers, accept| ask("web", mtls, answers, accept, protocol).unwrap_err();
        assert!(matches!(refused(false, "backend", InboundTls::Strict), Refusal::Handshake { .. }));
        assert!(matches!(refused(true, "impostor", InboundTls::Strict), Refusal::Handshake { .. }));
        let plain = refused(true, "backend", InboundTls::Plaintext);
        assert!(matches!(plain, Refusal::Handshake { .. } | Refusal::NotHttp { .. }), "{plain:?}");
    }
}

#[test]
fn destinations_outside_the_mesh_are_passed_through() {
    let from = caller(Protocol::Http, true);
    let called = call(Workload { proxy: &from, uris: &[] }, |_| None, "203.0.113.9", 443, &Request::bytes()).unwrap();
    assert_eq!(called.outbound.listener, "outbound:passthrough:ipv4");
    assert_eq!(called.endpoint.unwrap().address, "203.0.113.9");
    assert_eq!(called.inbound, None);
}
