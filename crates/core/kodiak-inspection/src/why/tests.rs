//! Answers about hand-made meshes: one test for each step that can have a problem.

use kodiak_model::Cancellation;
use kodiak_reachability::Mode;
use kodiak_world::World;
use kodiak_xds::names::Naming;
use serde_json::{Value, json};

use super::{CallVerdict, Step, StepName, StepState, WhyAnswer, WhyContext, WhyError, why};
use crate::calls::tests::{MESH, allow, dataplane, deny, mesh, put, put_with_status};

const CONTEXT: WhyContext = WhyContext { reachability: Mode::Off, naming: Naming::Kodiak, offline: false };

fn insight(world: &mut World, name: &str, subscription: &Value, mtls: &Value) {
    let spec = json!({ "subscriptions": [subscription], "mTLS": mtls });
    put(world, "DataplaneInsight", name, &json!({}), &spec);
}

fn connected(world: &mut World, name: &str) {
    let totals = json!({ "responsesSent": "4", "responsesAcknowledged": "4" });
    let subscription = json!({ "connectTime": "2026-01-01T00:00:00Z", "status": { "total": totals } });
    insight(world, name, &subscription, &json!({ "issuedBackend": "ca", "supportedBackends": ["ca"] }));
}

/// `web` may call `backend`; both are connected.
fn working() -> World {
    let mut world = mesh(&["web", "backend", "db"]);
    allow(&mut world, "to-backend", Some("backend"), &["web"]);
    let services = json!({
        "backend": { "address": "240.0.0.0" }, "db": { "address": "240.0.0.1" }, "web": { "address": "240.0.0.2" },
    });
    put(&mut world, "Config", "vips", &json!({}), &json!({ "next": 3, "services": services }));
    for name in ["web-1", "backend-1", "db-1"] {
        connected(&mut world, name);
    }
    world
}

#[track_caller]
fn ask(world: &World, client: &str, destination: &str) -> WhyAnswer {
    why(world, MESH, CONTEXT, client, destination, &Cancellation::never()).unwrap()
}

fn step(answer: &WhyAnswer, name: StepName) -> &Step {
    answer.steps.iter().find(|step| step.step == name).unwrap()
}

/// The step has the problem, and the summary is its reason.
#[track_caller]
fn fails(answer: &WhyAnswer, name: StepName, reason: &str) {
    let step = step(answer, name);
    assert_eq!((answer.verdict, step.state), (CallVerdict::Fails, StepState::Problem), "{answer:#?}");
    assert!(step.reason.contains(reason), "{}", step.reason);
    let first = answer.steps.iter().find(|step| step.state == StepState::Problem).unwrap();
    assert_eq!(answer.summary.split_once(": ").unwrap().1, first.reason);
}

#[test]
fn working_call_names_its_policy() {
    let answer = ask(&working(), "web", "backend");
    assert_eq!(answer.verdict, CallVerdict::Works, "{answer:#?}");
    assert_eq!(answer.summary, "web-1 can call backend: allowed by kri_mtp_default___to-backend_");
    assert!(answer.steps.iter().all(|step| step.state == StepState::Ok), "{answer:#?}");
    assert_eq!(step(&answer, StepName::Address).reason, "virtual address 240.0.0.0:80");
    assert_eq!(step(&answer, StepName::Cluster).reason, "cluster backend in Envoy's statistics and logs");
    let expected =
        ["expected SAN spiffe://default/backend", "the client trusts ca", "presented SAN spiffe://default/backend"];
    assert_eq!(step(&answer, StepName::Tls).details, expected);
    assert_eq!(answer.endpoints.len(), 1);
}

#[test]
fn names_of_all_forms_are_understood() {
    let world = working();
    for name in
        ["backend", "backend:80", "backend.mesh", "BACKEND.mesh.", "backend.mesh:80", "240.0.0.0", "240.0.0.0:80"]
    {
        assert_eq!(ask(&world, "web-1", name).destination, "backend", "{name}");
    }
    let wrong = why(&world, MESH, CONTEXT, "web", "backend:8080", &Cancellation::never()).unwrap_err();
    assert_eq!(wrong, WhyError::UnknownPort { destination: "backend".to_owned(), port: 8080, ports: vec![80] });
}

#[test]
fn unknown_names_have_suggestions() {
    let world = working();
    match why(&world, MESH, CONTEXT, "wbe", "backend", &Cancellation::never()).unwrap_err() {
        WhyError::UnknownClient(unknown) => assert_eq!(unknown.suggestions, ["web"]),
        other => panic!("{other:?}"),
    }
    match why(&world, MESH, CONTEXT, "web", "bakend.mesh", &Cancellation::never()).unwrap_err() {
        WhyError::UnknownDestination(unknown) => assert_eq!(unknown.suggestions, ["backend.mesh"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn missing_and_denying_permissions_are_problems() {
    let mut world = working();
    let answer = ask(&world, "web", "db");
    fails(&answer, StepName::Permission, "no MeshTrafficPermission of db allows web-1");
    assert!(
        step(&answer, StepName::Permission).details.contains(&"the client presents spiffe://default/web".to_owned())
    );
    deny(&mut world, "a-not-web", "backend", "web");
    fails(&ask(&world, "web", "backend"), StepName::Permission, "denied by kri_mtp_default___a-not-web_");
}

#[test]
fn trimmed_outbound_names_the_origin_of_the_mode() {
    let mut world = working();
    let on = WhyContext { reachability: Mode::On, ..CONTEXT };
    let answer = why(&world, MESH, on, "web", "db", &Cancellation::never()).unwrap();
    fails(
        &answer,
        StepName::Outbound,
        "trimmed, because web-1 may not call it (reachability on, setting of the control plane)",
    );
    assert!(answer.trimmed && !ask(&world, "web", "db").trimmed);
    let works = why(&world, MESH, on, "web", "backend", &Cancellation::never()).unwrap();
    assert_eq!((works.verdict, works.trimmed), (CallVerdict::Works, false));

    let mesh = world.mesh(MESH).unwrap();
    put(
        &mut world,
        "Mesh",
        MESH,
        &json!({ "kodiak.io/reachability": "shadow" }),
        &serde_json::to_value(&*mesh).unwrap(),
    );
    let shadow = why(&world, MESH, on, "web", "db", &Cancellation::never()).unwrap();
    let outbound = step(&shadow, StepName::Outbound);
    assert_eq!(outbound.state, StepState::Ok);
    assert_eq!(
        outbound.details,
        ["reachability shadow (label kodiak.io/reachability of Mesh default): with on, it would be trimmed"]
    );
    let own = world.get(&kodiak_model::ResourceKey::in_mesh("Dataplane", MESH, "web-1")).unwrap();
    let spec = serde_json::to_value(&*own.proxy().unwrap().dataplane).unwrap();
    put(&mut world, "Dataplane", "web-1", &json!({ "kodiak.io/reachability": "on" }), &spec);
    fails(&ask(&world, "web", "db"), StepName::Outbound, "label kodiak.io/reachability of Dataplane web-1");
}

fn client(world: &mut World, transparent: &Value, outbound: &Value) {
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
    let networking = json!({
        "address": "10.0.0.1", "inbound": inbound, "outbound": outbound, "transparentProxying": transparent,
    });
    put(world, "Dataplane", "web-1", &json!({}), &json!({ "networking": networking }));
}

#[test]
fn lists_of_the_dataplane_decide_about_outbounds() {
    let mut world = working();
    client(&mut world, &json!({ "redirectPortOutbound": 15001, "reachableServices": ["db", "backend"] }), &json!([]));
    assert_eq!(
        step(&ask(&world, "web", "backend"), StepName::Outbound).reason,
        "present: reachableServices[1] of the Dataplane"
    );
    // What the list asks for is trimmed like the rest.
    let on = WhyContext { reachability: Mode::On, ..CONTEXT };
    fails(&why(&world, MESH, on, "web", "db", &Cancellation::never()).unwrap(), StepName::Outbound, "is trimmed");
    client(&mut world, &json!({ "redirectPortOutbound": 15001, "reachableServices": ["db"] }), &json!([]));
    fails(&ask(&world, "web", "backend"), StepName::Outbound, "reachableServices of Dataplane web-1 does not list it");
}

#[test]
fn proxy_without_redirection_needs_an_outbound() {
    let mut world = working();
    let outbound = json!([{ "port": 9000, "tags": { "kuma.io/service": "backend" } }]);
    client(&mut world, &json!({}), &outbound);
    let answer = ask(&world, "web", "backend");
    assert_eq!(answer.verdict, CallVerdict::Works, "{answer:#?}");
    assert_eq!(
        step(&answer, StepName::Outbound).reason,
        "present: networking.outbound[0] of the Dataplane, at 127.0.0.1:9000"
    );
    fails(&ask(&world, "web", "db"), StepName::Outbound, "has no outbound for db");
}

#[test]
fn service_without_ready_instances_has_no_endpoints() {
    let mut world = working();
    let inbound = json!([{ "port": 80, "state": "NotReady", "tags": { "kuma.io/service": "backend" } }]);
    let spec = json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } });
    put(&mut world, "Dataplane", "backend-1", &json!({}), &spec);
    let answer = ask(&world, "web", "backend");
    fails(&answer, StepName::Endpoints, "none of the 1 instances of backend is a ready endpoint");
    assert_eq!(step(&answer, StepName::Endpoints).details, ["backend-1 at 10.0.0.1:80: NotReady, connected"]);
}

#[test]
fn certificate_of_an_untrusted_ca_is_a_problem() {
    let mut world = working();
    let subscription = json!({ "connectTime": "2026-01-01T00:00:00Z" });
    insight(&mut world, "backend-1", &subscription, &json!({ "issuedBackend": "new", "supportedBackends": ["new"] }));
    fails(&ask(&world, "web", "backend"), StepName::Tls, "the certificate of backend-1 is of new");
}

#[test]
fn disconnected_or_rejecting_client_is_a_problem() {
    let mut world = working();
    let gone = json!({ "connectTime": "2026-01-01T00:00:00Z", "disconnectTime": "2026-01-02T00:00:00Z" });
    insight(&mut world, "web-1", &gone, &json!({}));
    fails(&ask(&world, "web", "backend"), StepName::Proxies, "proxy web-1 is not connected since 2026-01-02T00:00:00Z");
    let open = json!({ "connectTime": "2026-01-01T00:00:00Z" });
    insight(&mut world, "web-1", &open, &json!({ "rejecting": "lds: bad listener" }));
    fails(&ask(&world, "web", "backend"), StepName::Proxies, "web-1 rejects its configuration: lds: bad listener");
    let totals = json!({ "responsesSent": "4", "responsesAcknowledged": "3", "responsesRejected": "1" });
    insight(&mut world, "web-1", &json!({ "connectTime": "x", "status": { "total": totals } }), &json!({}));
    let answer = ask(&world, "web", "backend");
    assert_eq!(step(&answer, StepName::Proxies).state, StepState::Unknown);
    assert!(answer.summary.ends_with("(not known: proxies)"), "{}", answer.summary);
}

#[test]
fn connected_instance_of_a_service_is_examined() {
    let mut world = working();
    dataplane(&mut world, "web-0", "web");
    let answer = ask(&world, "web", "backend");
    assert_eq!((answer.client.as_str(), answer.other_clients), ("web-1", vec!["web-0".to_owned()]));
    assert_eq!(ask(&world, "web-0", "backend").client, "web-0");
}

fn service(world: &mut World, name: &str, tag: &str) {
    let spec = json!({
        "selector": { "dataplaneTags": { "kuma.io/service": tag } },
        "ports": [{ "port": 8080, "targetPort": 80, "appProtocol": "http" }, { "port": 9090, "targetPort": 90 }],
        "identities": [{ "type": "ServiceTag", "value": tag }],
    });
    let status = json!({
        "vips": [{ "ip": "241.0.0.1" }],
        "addresses": [{ "hostname": "backend.svc.mesh.local", "status": "Available" }],
    });
    put_with_status(world, "MeshService", name, &json!({ "kuma.io/zone": "east" }), &spec, Some(&status));
}

#[test]
fn mesh_service_is_found_by_hostname_name_and_kri() {
    let mut world = working();
    service(&mut world, "api", "backend");
    let kri = "kri_msvc_default_east__api_8080";
    for name in [
        "backend.svc.mesh.local",
        "backend.svc.mesh.local:8080",
        "api",
        "kri_msvc_default_east__api_",
        kri,
        "241.0.0.1",
    ] {
        let answer = ask(&world, "web", name);
        assert_eq!((answer.destination.as_str(), answer.verdict), (kri, CallVerdict::Works), "{name}: {answer:#?}");
    }
    let answer = ask(&world, "web", "api");
    assert_eq!(
        step(&answer, StepName::Cluster).reason,
        "cluster api__east_default_msvc_8080 in Envoy's statistics and logs"
    );
    fails(&ask(&world, "web", "api:9090"), StepName::Endpoints, "no Dataplane serves api:9090");
    let wrong = why(&world, MESH, CONTEXT, "web", "api:1", &Cancellation::never()).unwrap_err();
    assert!(matches!(wrong, WhyError::UnknownPort { ports, .. } if ports == [8080, 9090]));
    // One name of two things.
    service(&mut world, "backend", "backend");
    let answer = ask(&world, "web", "backend");
    assert_eq!(step(&answer, StepName::Name).details, ["the name also means kri_msvc_default_east__backend_"]);
}

#[test]
fn external_service_is_never_trimmed() {
    let mut world = working();
    let spec = json!({
        "match": { "type": "HostnameGenerator", "port": 443, "protocol": "tls" },
        "endpoints": [{ "address": "bank.example", "port": 443 }],
    });
    let status = json!({ "vip": { "ip": "242.0.0.1" } });
    put_with_status(&mut world, "MeshExternalService", "bank", &json!({}), &spec, Some(&status));
    let on = WhyContext { reachability: Mode::On, ..CONTEXT };
    let answer = why(&world, MESH, on, "web", "bank", &Cancellation::never()).unwrap();
    assert_eq!(answer.verdict, CallVerdict::Works, "{answer:#?}");
    assert_eq!(answer.endpoints[0].address, "bank.example:443");
}

#[test]
fn problems_of_a_routed_destination_need_not_matter() {
    let mut world = working();
    let backends = json!([{ "kind": "MeshService", "name": "backend", "weight": 1 }]);
    let to = json!([{
        "targetRef": { "kind": "MeshService", "name": "db" }, "rules": [{ "default": { "backendRefs": backends } }],
    }]);
    put(&mut world, "MeshTCPRoute", "db-is-backend", &json!({}), &json!({ "targetRef": { "kind": "Mesh" }, "to": to }));
    let answer = ask(&world, "web", "db");
    assert_eq!(answer.verdict, CallVerdict::Works, "{answer:#?}");
    let permission = step(&answer, StepName::Permission);
    assert_eq!(permission.state, StepState::Unknown);
    assert!(permission.details.last().unwrap().contains("may send requests elsewhere"));
}

#[test]
fn files_leave_addresses_and_connections_unknown() {
    let mut world = mesh(&["web", "backend"]);
    allow(&mut world, "all", None, &[]);
    let answer =
        why(&world, MESH, WhyContext { offline: true, ..CONTEXT }, "web", "backend", &Cancellation::never()).unwrap();
    assert_eq!(answer.verdict, CallVerdict::Works);
    assert_eq!(
        answer.summary,
        "web-1 can call backend: allowed by kri_mtp_default___all_ (not known: address, proxies)"
    );
}

#[test]
fn answer_is_the_same_after_json() {
    let answer = ask(&working(), "web", "backend");
    let text = serde_json::to_string(&answer).unwrap();
    assert_eq!(serde_json::from_str::<WhyAnswer>(&text).unwrap(), answer);
}
