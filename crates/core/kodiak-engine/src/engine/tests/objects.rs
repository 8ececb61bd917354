//! MeshServices, MeshExternalServices and MeshMultiZoneServices, with and without `kuma.io/service` tags.

use std::sync::Arc;

use kodiak_model::kinds::dataplane::{Admission, BackendKind};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers, Rollout};
use kodiak_rules::Proxy;
use kodiak_xds::{names::Naming, node::NodeMetadata};
use kodiak_xds_stream::TypeUrl;
use serde_json::{Value, json};

use super::{
    names,
    world::{MESH, World, dataplane, inbound, key},
};
use crate::{Engine, EngineChange, EngineSettings, Stats, redacted};

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
const NEW: &str = "backend__default_default_msvc_8080";

fn mode(world: &mut World, mode: &str) -> crate::Outcome {
    world.mesh(&json!({ "meshServices": { "mode": mode } }).to_string())
}

fn mesh_service(name: &str, port: u32) -> Value {
    json!({
        "labels": { "kuma.io/display-name": name, "kuma.io/zone": "default", "kuma.io/origin": "zone" },
        "spec": {
            "selector": { "dataplaneTags": { "kuma.io/service": name } },
            "ports": [{ "port": port, "targetPort": port, "appProtocol": "http", "name": "main" }],
        },
        "status": { "vips": [{ "ip": "241.0.0.1" }], "addresses": [{ "hostname": format!("{name}.svc.mesh.local") }] },
    })
}

/// `front` and `all` call `backend`, which has one instance.
fn front_and_backend() -> World {
    let mut world = World::default();
    world.mesh("{}");
    world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
    world.redirected("front", &["backend"]);
    world.redirected("all", &[]);
    world.assign_vips();
    world
}

/// A Dataplane with the label `app: payments`, created by a proxy with a token of this admission, or by a user.
fn payments_member(name: &str, service: &str, admission: Option<Admission>) -> EngineChange {
    let spec = dataplane(name, &[inbound(8080, service, "http")], &[]);
    let proxy = Proxy {
        mesh: MESH.into(),
        name: name.into(),
        labels: Arc::new([("app".to_owned(), "payments".to_owned())].into()),
        dataplane: Arc::new(serde_json::from_str(&spec).unwrap()),
        admission: admission.map(Arc::new),
    };
    EngineChange::Dataplane { key: key(name), dataplane: Some(Arc::new(proxy)) }
}

#[test]
fn member_without_a_vouching_token_is_neither_an_endpoint_nor_accepted() {
    let mut world = World::default();
    let backends = json!([{ "name": "ca", "type": "builtin" }]);
    let mesh = json!({
        "meshServices": { "mode": "Everywhere" }, "mtls": { "enabledBackend": "ca", "backends": backends },
    });
    world.mesh(&mesh.to_string());
    world.rollout(world.next_rollout());
    world.redirected("all", &[]);
    let mut service = mesh_service("payments", 8080);
    service["spec"]["selector"] = json!({ "dataplaneLabels": { "matchLabels": { "app": "payments" } } });
    world.object(BackendKind::MeshService, "payments", Some(service));
    world.apply(payments_member("payments-1", "payments", None));
    let payments = "payments__default_default_msvc_8080";
    let one = addresses(&world, "all", payments);
    assert_eq!(one.len(), 1);
    let secret = format!("mesh_ca:secret:default:{payments}");
    let accepts_web =
        |world: &World| config(world, "all")[SECRET][&secret].to_string().contains("spiffe://default/web");
    let bound = |labels: &[&str]| Admission {
        tags: ["kuma.io/service".to_owned()].into(),
        labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        name: true,
        ..Admission::default()
    };
    world.apply(payments_member("web-1", "web", Some(bound(&[]))));
    assert_eq!(addresses(&world, "all", payments), one);
    assert!(!accepts_web(&world));
    for vouched in [Some(bound(&["app"])), None] {
        world.apply(payments_member("web-1", "web", vouched));
        assert_eq!(addresses(&world, "all", payments).len(), 2);
        assert!(accepts_web(&world));
        world.apply(payments_member("web-1", "web", Some(bound(&[]))));
        assert_eq!(addresses(&world, "all", payments), one, "a change of the token takes effect");
        assert!(!accepts_web(&world));
    }
}

/// The token of the identity guide (`--workload web`) with the label of another service.
#[test]
fn workload_token_takes_over_no_service() {
    let mut world = World::default();
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    world.mesh(&json!({ "meshServices": { "mode": "Exclusive" }, "mtls": mtls }).to_string());
    let identity = AppliedIdentity {
        trust_domain: "td".into(),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    };
    let issuers = Issuers { signer: Some("ca".into()), identities: vec![Arc::new(identity)], ..Issuers::default() };
    world.rollout(Some(Rollout { issuers, call: true, trust: vec!["ca".into()], ..Rollout::default() }));
    world.redirected("all", &[]);
    let mut service = mesh_service("payments", 8080);
    service["spec"]["selector"] = json!({ "dataplaneLabels": { "matchLabels": { "app": "payments" } } });
    world.object(BackendKind::MeshService, "payments", Some(service));
    let member = |name: &str, workload: &str, admission: Option<Admission>| {
        let EngineChange::Dataplane { key, dataplane } = payments_member(name, workload, admission) else { panic!() };
        let mut proxy = Arc::unwrap_or_clone(dataplane.unwrap());
        let mut labels = (*proxy.labels).clone();
        labels.insert("kuma.io/workload".to_owned(), workload.to_owned());
        proxy.labels = Arc::new(labels);
        EngineChange::Dataplane { key, dataplane: Some(Arc::new(proxy)) }
    };
    world.apply(member("payments-1", "payments", None));
    let payments = "payments__default_default_msvc_8080";
    let one = addresses(&world, "all", payments);
    assert_eq!(one.len(), 1);
    let secret = format!("mesh_ca:secret:default:{payments}");
    let accepts = |world: &World, workload: &str| {
        let expected = format!("spiffe://td/workload/{workload}");
        config(world, "all")[SECRET][&secret].to_string().contains(&expected)
    };
    assert!(accepts(&world, "payments"));
    let token = |labels: &[&str]| {
        Some(Admission { labels: labels.iter().map(|label| (*label).to_owned()).collect(), ..Admission::default() })
    };
    world.apply(member("web-1", "web", token(&["kuma.io/workload"])));
    assert_eq!(addresses(&world, "all", payments), one);
    assert!(!accepts(&world, "web"));
    world.apply(member("web-1", "web", token(&["kuma.io/workload", "app"])));
    assert_eq!(addresses(&world, "all", payments).len(), 2);
    assert!(accepts(&world, "web"));
}

fn config(world: &World, proxy: &str) -> Value {
    redacted::config(&world.snapshot(proxy)).unwrap()
}

fn cluster(world: &World, proxy: &str, name: &str) -> Value {
    config(world, proxy)["type.googleapis.com/envoy.config.cluster.v3.Cluster"][name].clone()
}

fn listener(world: &World, proxy: &str, name: &str) -> Value {
    config(world, proxy)["type.googleapis.com/envoy.config.listener.v3.Listener"][name].clone()
}

fn addresses(world: &World, proxy: &str, cluster: &str) -> Vec<String> {
    let all = config(world, proxy);
    let assignment = &all["type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"][cluster];
    let groups = assignment["endpoints"].as_array().cloned().unwrap_or_default();
    let endpoints = groups.iter().flat_map(|group| group["lbEndpoints"].as_array().cloned().unwrap_or_default());
    let address =
        |endpoint: Value| endpoint["endpoint"]["address"]["socketAddress"]["address"].as_str().map(str::to_owned);
    endpoints.filter_map(address).collect()
}

fn called(world: &World, proxy: &str) -> Vec<String> {
    let own = ["localhost", "inbound", "outbound", "self_", "kuma:"];
    let is_called = |name: &String| !own.iter().any(|prefix| name.starts_with(prefix));
    names(world, proxy, TypeUrl::Cluster).into_iter().filter(is_called).collect()
}

#[test]
fn each_mesh_services_mode_has_its_clusters_and_disabling_restores_the_snapshot() {
    let mut world = front_and_backend();
    let before = world.snapshot("all");
    mode(&mut world, "Everywhere");
    assert_eq!(world.snapshot("all").resources, before.resources, "without a MeshService, the mode changes nothing");
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    assert_eq!(called(&world, "all"), ["all", "backend", NEW, "front"]);
    assert_eq!(called(&world, "front"), ["backend"], "its list means MeshServices of its own zone, and it has none");
    assert_eq!(addresses(&world, "all", NEW), ["10.0.1.1"]);
    let old = listener(&world, "all", "outbound:240.0.0.1:80");
    assert_eq!(old["metadata"]["filterMetadata"]["io.kuma.tags"]["kuma.io/service"], "backend");
    let new = listener(&world, "all", "outbound:241.0.0.1:8080");
    let kri = "kri_msvc_default_default__backend_main";
    assert_eq!(new["metadata"]["filterMetadata"]["io.kuma.tags"]["kuma.io/unified-name"], kri);

    mode(&mut world, "ReachableBackends");
    assert_eq!(called(&world, "all"), ["all", "backend", "front"]);
    mode(&mut world, "Exclusive");
    assert_eq!(called(&world, "all"), [NEW]);
    assert_eq!(called(&world, "front"), [""; 0]);
    let listeners = names(&world, "all", TypeUrl::Listener);
    assert!(!listeners.iter().any(|name| name.starts_with("outbound:240")), "{listeners:?}");

    mode(&mut world, "Disabled");
    world.object(BackendKind::MeshService, "backend", None);
    assert_eq!(world.snapshot("all").resources, before.resources);
}

#[test]
fn reachable_services_include_the_mesh_services_of_these_names() {
    let mut world = front_and_backend();
    for name in ["backend", "other"] {
        let mut object = mesh_service(name, 8080);
        object["labels"] = json!({ "kuma.io/display-name": name });
        world.object(BackendKind::MeshService, name, Some(object));
    }
    let object = "backend___default_msvc_8080";
    for (mesh_services, expected) in [
        ("Disabled", &["backend"][..]),
        ("Everywhere", &["backend", object]),
        ("ReachableBackends", &["backend"]),
        ("Exclusive", &[object]),
    ] {
        mode(&mut world, mesh_services);
        assert_eq!(called(&world, "front"), expected, "{mesh_services}");
    }
    let (rebuilt, _) = world.rebuilt();
    assert_eq!(rebuilt.snapshot(&key("front")).unwrap().resources, world.snapshot("front").resources);
    world.object(BackendKind::MeshService, "backend", None);
    assert_eq!(called(&world, "front"), [""; 0]);
}

#[test]
fn exclusive_mode_removes_outbounds_with_tags_and_route_backends_without_a_port() {
    let mut world = front_and_backend();
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    let outbound = json!([
        { "port": 1, "tags": { "kuma.io/service": "backend" } },
        { "port": 2, "backendRef": { "kind": "MeshService", "labels": { "kuma.io/display-name": "backend" }, "port": 8080 } },
    ]);
    let networking = json!({ "address": "10.0.0.8", "inbound": [inbound(80, "caller", "http")], "outbound": outbound });
    world.dataplane("caller", json!({ "networking": networking }).to_string());
    world.connect("caller");
    let backends = json!([{ "kind": "MeshService", "name": "front" }]);
    let rule = json!({ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }], "default": { "backendRefs": backends } });
    let target =
        json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "backend" }, "sectionName": "main" });
    let route = json!({ "to": [{ "targetRef": target, "rules": [rule] }] });
    world.policy("MeshHTTPRoute", "route", Some(&route.to_string()));
    mode(&mut world, "Everywhere");
    assert_eq!(called(&world, "caller"), ["backend", NEW, "front"]);
    let before = world.snapshot("caller");
    mode(&mut world, "Exclusive");
    assert_eq!(called(&world, "caller"), [NEW]);
    let listeners = names(&world, "caller", TypeUrl::Listener);
    assert!(!listeners.contains(&"outbound:127.0.0.1:1".to_owned()), "{listeners:?}");
    mode(&mut world, "Everywhere");
    assert_eq!(world.snapshot("caller").resources, before.resources);
}

#[test]
fn reachable_backends_limit_clusters_to_the_listed_ones() {
    let mut world = front_and_backend();
    mode(&mut world, "ReachableBackends");
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    let mut other = mesh_service("other", 81);
    other["status"]["vips"][0]["ip"] = json!("241.0.0.2");
    world.object(BackendKind::MeshService, "other", Some(other));
    let mut lists = |refs: Value| {
        let spec = json!({ "networking": { "address": "10.0.0.9", "inbound": [inbound(80, "picky", "http")],
            "transparentProxying": { "redirectPortInbound": 15006, "redirectPortOutbound": 15001,
                "reachableServices": ["none"], "reachableBackends": { "refs": refs } } } });
        world.dataplane("picky", spec.to_string());
        world.connect("picky");
        world.assign_vips();
        called(&world, "picky")
    };
    assert_eq!(lists(json!([])), [""; 0]);
    let backend = json!({ "kind": "MeshService", "name": "backend" });
    let labelled = json!({ "kind": "MeshService", "labels": { "kuma.io/zone": "default" } });
    // By name, a Dataplane without a zone label refers to a MeshService without one.
    assert_eq!(lists(json!([backend])), [""; 0]);
    assert_eq!(lists(json!([labelled])), [NEW, "other__default_default_msvc_81"]);
    let gone = json!({ "kind": "MeshService", "labels": { "kuma.io/zone": "elsewhere" } });
    assert_eq!(lists(json!([gone])), [""; 0]);
}

#[test]
fn status_updates_change_no_proxy() {
    let mut world = front_and_backend();
    mode(&mut world, "Everywhere");
    let mut service = mesh_service("backend", 8080);
    world.object(BackendKind::MeshService, "backend", Some(service.clone()));
    service["spec"]["state"] = json!("Available");
    service["spec"]["identities"] = json!([{ "type": "ServiceTag", "value": "backend" }]);
    service["status"]["tls"] = json!({ "status": "Ready" });
    service["status"]["dataplaneProxies"] = json!({ "connected": 1, "healthy": 1, "total": 1 });
    let outcome = world.object(BackendKind::MeshService, "backend", Some(service));
    assert_eq!((outcome.stats, outcome.proxies.len()), (Stats::default(), 0));
}

#[test]
fn new_instance_encodes_one_assignment_per_cluster() {
    let mut world = front_and_backend();
    mode(&mut world, "Everywhere");
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    let new = dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]);
    let outcome = world.dataplane("backend-2", new);
    assert_eq!(outcome.stats, Stats { encoded: 2, woken: 2 });
    assert_eq!(addresses(&world, "all", NEW), ["10.0.1.1", "10.0.1.2"]);
    let mut sick = inbound(8080, "backend", "http");
    sick["state"] = json!("NotReady");
    let outcome = world.dataplane("backend-2", dataplane("backend-2", &[sick], &[]));
    assert_eq!(outcome.stats, Stats { encoded: 0, woken: 2 }, "both assignments are cached");
    assert_eq!(addresses(&world, "all", NEW), ["10.0.1.1"]);
}

#[test]
fn clients_accept_identities_of_the_spec_and_of_current_members() {
    let mut world = front_and_backend();
    world.mesh(
        &json!({
            "meshServices": { "mode": "Exclusive" },
            "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] },
        })
        .to_string(),
    );
    let mut service = mesh_service("backend", 8080);
    service["spec"]["identities"] = json!([{ "type": "SpiffeID", "value": "spiffe://elsewhere/backend" }]);
    world.object(BackendKind::MeshService, "backend", Some(service));
    let socket = &cluster(&world, "all", NEW)["transportSocket"]["typedConfig"];
    assert_eq!(socket["sni"], "a601e0c00295a9fbe.backend.8080.default.ms");
    let secret = socket["commonTlsContext"]["validationContextSdsSecretConfig"]["name"].as_str().unwrap();
    let secret = &config(&world, "all")[SECRET][secret];
    let expected = secret["validationContext"]["matchTypedSubjectAltNames"].as_array().unwrap();
    let expected: Vec<&Value> = expected.iter().map(|each| &each["matcher"]["exact"]).collect();
    assert_eq!(expected, ["spiffe://default/backend", "spiffe://elsewhere/backend"]);
}

#[test]
fn clusters_and_listeners_follow_the_configured_naming() {
    let mut world = front_and_backend();
    for (naming, expected) in [
        (Naming::Kodiak, NEW),
        (Naming::Kuma, "default_backend__default_msvc_8080"),
        (Naming::Kri, "kri_msvc_default_default__backend_main"),
    ] {
        world.engine = Engine::new(EngineSettings { zone: "default".into(), naming, ..EngineSettings::default() });
        mode(&mut world, "Exclusive");
        world.dataplane("backend-1", dataplane("backend-1", &[inbound(8080, "backend", "http")], &[]));
        world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
        world.redirected("all", &[]);
        assert_eq!(called(&world, "all"), [expected]);
        let listener_name = if naming == Naming::Kri { expected } else { "outbound:241.0.0.1:8080" };
        let manager = &listener(&world, "all", listener_name)["filterChains"][0]["filters"][0]["typedConfig"];
        assert_eq!(manager["statPrefix"], expected, "metrics identify the destination");
    }
}

/// The legacy name of a Kubernetes service as `kuma.io/service`.
#[test]
fn policies_for_a_legacy_name_apply_to_the_mesh_service_but_routes_do_not() {
    let mut world = front_and_backend();
    mode(&mut world, "Everywhere");
    let mut service = mesh_service("demo-app", 5000);
    service["labels"]["k8s.kuma.io/namespace"] = json!("kuma-demo");
    world.object(BackendKind::MeshService, "demo-app", Some(service));
    let new = "demo-app_kuma-demo_default_default_msvc_5000";
    let legacy_name = json!({ "kind": "MeshService", "name": "demo-app_kuma-demo_svc_5000" });
    let timeout = json!({ "to": [{ "targetRef": legacy_name, "default": { "connectionTimeout": "7s" } }] });
    world.policy("MeshTimeout", "t", Some(&timeout.to_string()));
    assert_eq!(cluster(&world, "all", new)["connectTimeout"], "7s");
    let conf = json!({ "backendRefs": [{ "kind": "MeshService", "name": "backend", "weight": 1 }] });
    let rule = json!({ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }], "default": conf });
    let route = json!({ "to": [{ "targetRef": legacy_name, "rules": [rule] }] });
    world.policy("MeshHTTPRoute", "r", Some(&route.to_string()));
    let path = "/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0/route/cluster";
    let routed = |world: &World| listener(world, "all", "outbound:241.0.0.1:5000").pointer(path).cloned().unwrap();
    assert_eq!(routed(&world), new);
    // A reference with a section name selects the MeshService alone.
    let meant =
        json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "demo-app" }, "sectionName": "main" });
    let route = json!({ "to": [{ "targetRef": meant, "rules": [rule] }] });
    world.policy("MeshHTTPRoute", "r", Some(&route.to_string()));
    assert_eq!(routed(&world), "backend");
}

#[test]
fn route_follows_creation_and_deletion_of_its_backend() {
    let mut world = front_and_backend();
    mode(&mut world, "Everywhere");
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    let backends = json!([
        { "kind": "MeshService", "name": "backend", "port": 8080, "weight": 9 },
        { "kind": "MeshService", "labels": { "version": "next" }, "port": 8081, "weight": 1 },
    ]);
    let rule = json!({ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }], "default": { "backendRefs": backends } });
    let to = json!({ "kind": "MeshService", "labels": { "kuma.io/display-name": "backend" }, "sectionName": "main" });
    world.policy("MeshHTTPRoute", "split", Some(&json!({ "to": [{ "targetRef": to, "rules": [rule] }] }).to_string()));
    let route = |world: &World| {
        let all = listener(world, "all", "outbound:241.0.0.1:8080");
        all.pointer("/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0").cloned().unwrap()
    };
    assert_eq!(route(&world)["route"]["cluster"], NEW);
    assert_eq!(route(&world)["name"], "kri_mhttpr_default___split_");
    let mut next = mesh_service("backend-next", 8081);
    next["labels"]["version"] = json!("next");
    next["status"]["vips"] = json!([]);
    world.object(BackendKind::MeshService, "backend-next", Some(next));
    let clusters = &route(&world)["route"]["weightedClusters"]["clusters"];
    assert_eq!(clusters[1]["name"], "backend-next__default_default_msvc_8081");
    assert!(called(&world, "all").contains(&"backend-next__default_default_msvc_8081".to_owned()));
    world.object(BackendKind::MeshService, "backend-next", None);
    assert_eq!(route(&world)["route"]["cluster"], NEW);
    assert!(!called(&world, "all").iter().any(|name| name.starts_with("backend-next")));
}

#[test]
fn multi_zone_service_has_the_endpoints_of_all_selected_services() {
    let mut world = front_and_backend();
    mode(&mut world, "Everywhere");
    for (n, name) in ["backend", "front"].into_iter().enumerate() {
        let mut service = mesh_service(name, if n == 0 { 8080 } else { 80 });
        service["labels"]["team"] = json!("x");
        service["status"]["vips"][0]["ip"] = json!(format!("241.0.0.{n}"));
        world.object(BackendKind::MeshService, name, Some(service));
    }
    let selector = json!({ "meshService": { "matchLabels": { "team": "x" } } });
    let multi = json!({
        "labels": {}, "status": { "vips": [{ "ip": "243.0.0.1" }] },
        "spec": { "selector": selector, "ports": [{ "port": 80 }, { "port": 8080, "appProtocol": "http" }] },
    });
    world.object(BackendKind::MeshMultiZoneService, "both", Some(multi));
    assert_eq!(addresses(&world, "all", "both___default_mzsvc_8080"), ["10.0.1.1"]);
    assert_eq!(addresses(&world, "all", "both___default_mzsvc_80"), ["10.0.0.7"]);
    let outcome = world.dataplane("backend-2", dataplane("backend-2", &[inbound(8080, "backend", "http")], &[]));
    assert_eq!(outcome.stats.encoded, 3, "for the tag, the MeshService and the MeshMultiZoneService");
    assert_eq!(addresses(&world, "all", "both___default_mzsvc_8080"), ["10.0.1.1", "10.0.1.2"]);
    let mut moved = mesh_service("backend", 8080);
    moved["labels"]["team"] = json!("y");
    world.object(BackendKind::MeshService, "backend", Some(moved));
    assert!(addresses(&world, "all", "both___default_mzsvc_8080").is_empty());
}

#[test]
fn external_service_is_called_directly_or_through_an_egress_or_forbidden() {
    let mut world = front_and_backend();
    let external = json!({
        "labels": {}, "status": { "vip": { "ip": "242.0.0.1" }, "addresses": [{ "hostname": "httpbin.extsvc.mesh.local" }] },
        "spec": {
            "match": { "type": "HostnameGenerator", "port": 80, "protocol": "http" },
            "endpoints": [{ "address": "bank.example.org", "port": 443 }],
            "tls": { "enabled": true, "verification": { "caCert": { "inlineString": "pem" } } },
        },
    });
    world.object(BackendKind::MeshExternalService, "httpbin", Some(external));
    let name = "httpbin___default_extsvc_80";
    assert_eq!(cluster(&world, "all", name)["type"], "STRICT_DNS");
    let path = "/filterChains/0/filters/0/typedConfig/routeConfig/virtualHosts/0/routes/0/route/autoHostRewrite";
    assert_eq!(listener(&world, "all", "outbound:242.0.0.1:80").pointer(path), Some(&json!(true)));

    world.mesh(&json!({ "routing": { "defaultForbidMeshExternalServiceAccess": true } }).to_string());
    assert!(!called(&world, "all").contains(&name.to_owned()));

    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    world.mesh(&json!({ "mtls": mtls }).to_string());
    let egress = json!({ "networking": { "address": "10.9.9.9", "port": 10002 } });
    let egress = Some(std::sync::Arc::new(serde_json::from_value(egress).unwrap()));
    world.apply(EngineChange::ZoneEgress { name: "egress".into(), egress });
    assert_eq!(addresses(&world, "all", name), ["10.9.9.9"]);
    let socket = &cluster(&world, "all", name)["transportSocket"]["typedConfig"];
    assert_eq!(socket["sni"], "a260442408b1a89a9.httpbin.80.default.mes");
}

#[test]
fn listed_outbound_must_resolve_to_exactly_one_port() {
    let mut world = front_and_backend();
    world.object(BackendKind::MeshService, "backend", Some(mesh_service("backend", 8080)));
    let mut lists = |reference: Value| {
        let outbound = json!([{ "port": 10001, "backendRef": reference }]);
        let spec = json!({ "networking": { "address": "10.0.0.9", "inbound": [], "outbound": outbound } });
        world.dataplane("listed", spec.to_string());
        world.connect_as("listed", NodeMetadata::default());
        called(&world, "listed")
    };
    let labels = json!({ "kuma.io/display-name": "backend" });
    assert_eq!(lists(json!({ "kind": "MeshService", "labels": labels, "port": 8080 })), [NEW]);
    assert_eq!(lists(json!({ "kind": "MeshService", "labels": labels, "port": 81 })), [""; 0]);
    assert_eq!(lists(json!({ "kind": "MeshService", "labels": { "kuma.io/zone": "default" }, "port": 8080 })), [NEW]);
    let mut other = mesh_service("other", 8080);
    other["status"]["vips"] = json!([]);
    world.object(BackendKind::MeshService, "other", Some(other));
    assert_eq!(called(&world, "listed"), [""; 0], "the reference is ambiguous now");
    world.object(BackendKind::MeshService, "other", None);
    assert_eq!(called(&world, "listed"), [NEW]);
    assert!(world.engine.snapshot(&key("listed")).is_some());
}
