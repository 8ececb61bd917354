//! References of one Dataplane among a few destinations.

mod property;

use std::sync::Arc;

use jiff::Timestamp;
use kodiak_model::{
    Kind, Kri, Labels, Protocol,
    kinds::{
        dataplane::BackendKind, mesh::MeshServicesMode, mesh_external_service, mesh_multi_zone_service, mesh_service,
    },
};
use kodiak_rules::Proxy;
use serde_json::{Value, json};

use super::{Reference, ReferenceContext, Why, of};
use kodiak_world::destination::{Behind, Destination, DestinationPort};

const EXCLUSIVE: MeshServicesMode = MeshServicesMode::Exclusive;
const EVERYWHERE: MeshServicesMode = MeshServicesMode::Everywhere;
const DISABLED: MeshServicesMode = MeshServicesMode::Disabled;

fn destination(sort: BackendKind, name: &str, pairs: &Value, ports: &[u32]) -> Arc<Destination> {
    let (kind, behind): (&Kind, _) = match sort {
        BackendKind::MeshService => (&mesh_service::KIND, Behind::Service(Arc::default())),
        BackendKind::MeshExternalService => (&mesh_external_service::KIND, Behind::External(Arc::default())),
        BackendKind::MeshMultiZoneService => (&mesh_multi_zone_service::KIND, Behind::MultiZone(Arc::default())),
    };
    let labels: Labels = serde_json::from_value(pairs.clone()).unwrap();
    let port = |port: &u32| DestinationPort { section: port.to_string(), port: *port, protocol: Protocol::Tcp };
    Arc::new(Destination {
        kri: Kri::of(kind, "default", name, &labels).unwrap(),
        name: name.into(),
        labels: Arc::new(labels),
        created: Timestamp::UNIX_EPOCH,
        ports: ports.iter().map(port).collect(),
        vips: Vec::new(),
        hostnames: Vec::new(),
        behind,
    })
}

fn destinations() -> Vec<Arc<Destination>> {
    let (east, west) = (json!({ "kuma.io/zone": "east", "team": "a" }), json!({ "kuma.io/zone": "west", "size": "s" }));
    let shop = json!({ "kuma.io/zone": "east", "k8s.kuma.io/namespace": "shop" });
    vec![
        destination(BackendKind::MeshService, "web", &east, &[80, 81]),
        destination(BackendKind::MeshService, "api", &east, &[80]),
        destination(BackendKind::MeshService, "web", &west, &[80]),
        destination(BackendKind::MeshService, "back", &west, &[80]),
        destination(BackendKind::MeshService, "till", &shop, &[80]),
        destination(BackendKind::MeshService, "empty", &east, &[]),
        destination(BackendKind::MeshExternalService, "bank", &json!({ "paid": "yes" }), &[443]),
        destination(BackendKind::MeshExternalService, "far", &json!({ "kuma.io/zone": "west", "far": "1" }), &[443]),
        destination(BackendKind::MeshMultiZoneService, "all", &json!({ "team": "a" }), &[80]),
    ]
}

fn proxy(networking: &Value) -> Proxy {
    let labels = json!({ "kuma.io/zone": "east" });
    Proxy {
        mesh: "default".into(),
        name: "client".into(),
        labels: Arc::new(serde_json::from_value(labels).unwrap()),
        dataplane: Arc::new(serde_json::from_value(json!({ "networking": networking })).unwrap()),
        admission: None,
    }
}

fn found(mode: MeshServicesMode, redirected: Option<bool>, networking: &Value) -> Vec<Reference> {
    let destinations = destinations();
    let is_served = |name: &str| name == "old";
    let context = ReferenceContext {
        mode,
        destinations: &destinations,
        objects: destinations.len(),
        is_served: &is_served,
        redirected,
    };
    of(&proxy(networking), context)
}

fn backends(refs: &Value) -> Value {
    json!({ "transparentProxying": { "reachableBackends": { "refs": refs } } })
}

fn outbound(reference: &Value) -> Value {
    json!({ "outbound": [{ "port": 1, "backendRef": reference }] })
}

/// The reference of a list and of an outbound is the same; what it means, or the words of its trouble.
#[track_caller]
fn check(mode: MeshServicesMode, reference: &Value, expected: Result<&[&str], &str>) {
    let by_list = found(mode, Some(true), &backends(&json!([reference])));
    let [one] = by_list.as_slice() else { panic!("{by_list:?}") };
    assert_eq!(one.path, "networking.transparentProxying.reachableBackends.refs[0]");
    match (&one.trouble, expected) {
        (None, Ok(means)) => assert_eq!(one.means, means, "{reference}"),
        (Some(trouble), Err(message)) => {
            assert_eq!((trouble.reason, trouble.message.as_str()), (Why::Unresolved, message), "{reference}");
            assert!(one.means.is_empty(), "{reference}");
        }
        (trouble, expected) => panic!("{reference}: {trouble:?} and not {expected:?}"),
    }
}

#[test]
fn outbound_with_tags_has_no_effect_in_exclusive_mode() {
    let outbound = json!({ "outbound": [{ "port": 1, "tags": { "kuma.io/service": "old" } }] });
    for mode in [DISABLED, EVERYWHERE] {
        check_troubles(&found(mode, Some(false), &outbound), &[]);
    }
    let path = "networking.outbound[0].tags";
    check_troubles(&found(EXCLUSIVE, Some(false), &outbound), &[(path, Why::NoEffect, "write a backendRef")]);
}

#[test]
fn reference_targets_all_reachable_ports() {
    let web = json!({ "kind": "MeshService", "name": "web" });
    check(EXCLUSIVE, &web, Ok(&["kri_msvc_default_east__web_80", "kri_msvc_default_east__web_81"]));
    let port = json!({ "kind": "MeshService", "name": "web", "port": 81 });
    check(DISABLED, &port, Ok(&["kri_msvc_default_east__web_81"]));
    let zone = json!({ "kind": "MeshService", "labels": { "kuma.io/zone": "west" } });
    check(EXCLUSIVE, &zone, Ok(&["kri_msvc_default_west__back_80", "kri_msvc_default_west__web_80"]));
    let all = json!({ "kind": "MeshExternalService", "labels": {} });
    check(EXCLUSIVE, &all, Ok(&["kri_extsvc_default___bank_443"]));
    let namespace = json!({ "kind": "MeshService", "name": "till", "namespace": "shop" });
    check(EXCLUSIVE, &namespace, Ok(&["kri_msvc_default_east_shop_till_80"]));
    let everywhere = json!({ "kind": "MeshExternalService", "name": "bank" });
    check(EXCLUSIVE, &everywhere, Ok(&["kri_extsvc_default___bank_443"]));
}

#[test]
fn unresolved_reference_has_a_specific_reason() {
    let wait = "fix the reference, or start a Dataplane of the service";
    let cases: [(Value, String); 11] = [
        (
            json!({ "kind": "MeshService", "name": "gone" }),
            format!("there is no MeshService \"gone\" in zone \"east\"; {wait}"),
        ),
        (
            json!({ "kind": "MeshService", "name": "gone", "namespace": "x" }),
            format!("there is no MeshService \"gone\" in zone \"east\" and namespace \"x\"; {wait}"),
        ),
        (
            json!({ "kind": "MeshService", "name": "web", "port": 82 }),
            "there is MeshService \"web\", but with no port 82: use 80 or 81".to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "name": "empty" }),
            "there is MeshService \"empty\", but without ports: give it one".to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "name": "bank" }),
            "there is no MeshService \"bank\" in zone \"east\", but a MeshExternalService: write kind: \
             MeshExternalService"
                .to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "name": "till" }),
            "there is no MeshService \"till\" in zone \"east\", but one in namespace \"shop\": write namespace: shop"
                .to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "name": "web", "namespace": "shop" }),
            "there is no MeshService \"web\" in zone \"east\" and namespace \"shop\", but one without a namespace: select \
             it by its labels"
                .to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "name": "back" }),
            "there is no MeshService \"back\" in zone \"east\", but one in zone \"west\": a name means this zone, so \
             select it by labels, kuma.io/display-name: back and kuma.io/zone: west"
                .to_owned(),
        ),
        (
            json!({ "kind": "MeshService", "labels": { "team": "a", "size": "s", "x": "y" } }),
            format!("no MeshService has x=y; {wait}"),
        ),
        (
            json!({ "kind": "MeshService", "labels": { "team": "a", "size": "s" } }),
            format!("there is a MeshService with each of size=s, team=a, but none with all of them; {wait}"),
        ),
        (
            json!({ "kind": "MeshService", "labels": { "paid": "yes" } }),
            "no MeshService has paid=yes, but a MeshExternalService has: write kind: MeshExternalService".to_owned(),
        ),
    ];
    for (reference, message) in cases {
        check(EXCLUSIVE, &reference, Err(&message));
    }
    let far = json!({ "kind": "MeshExternalService", "labels": { "far": "1" } });
    let message = "there is MeshExternalService \"far\", but it is called only from its own zone, \"west\": make one for \
                   this zone";
    check(EXCLUSIVE, &far, Err(message));
    let gone = json!({ "kind": "MeshService", "name": "gone" });
    let message = "there is no MeshService \"gone\" in zone \"east\"; fix the reference, or create one: none is generated from Dataplanes \
                   while meshServices.mode is Disabled";
    check(DISABLED, &gone, Err(message));
    let external = json!({ "kind": "MeshExternalService", "name": "gone" });
    check(
        DISABLED,
        &external,
        Err("there is no MeshExternalService \"gone\" in zone \"east\"; fix the reference, or create one"),
    );
    let unknown = json!({ "kind": "MeshSubset", "name": "web" });
    check(DISABLED, &unknown, Err("the kind is none of MeshExternalService, MeshMultiZoneService, MeshService"));
}

/// Path, reason and a part of the message of all that is in trouble.
#[track_caller]
fn check_troubles(found: &[Reference], expected: &[(&str, Why, &str)]) {
    let troubles: Vec<_> = found.iter().filter_map(|one| Some((&one.path, one.trouble.as_ref()?))).collect();
    assert_eq!(troubles.len(), expected.len(), "{found:#?}");
    for ((path, trouble), (expected_path, reason, part)) in troubles.into_iter().zip(expected) {
        assert_eq!((path.as_str(), trouble.reason), (*expected_path, *reason), "{found:#?}");
        assert!(trouble.message.contains(part), "{part}: {}", trouble.message);
    }
}

#[test]
fn outbound_targets_one_port() {
    let path = "networking.outbound[0].backendRef";
    let one = json!({ "kind": "MeshService", "name": "web", "port": 80 });
    let is_fine = found(EXCLUSIVE, Some(false), &outbound(&one));
    assert_eq!((is_fine[0].path.as_str(), is_fine[0].trouble.as_ref()), (path, None));
    assert_eq!(is_fine[0].means, ["kri_msvc_default_east__web_80"]);
    let without_port = json!({ "kind": "MeshExternalService", "name": "bank" });
    check_troubles(&found(EXCLUSIVE, None, &outbound(&without_port)), &[]);

    let several = json!({ "kind": "MeshService", "labels": { "team": "a" }, "port": 80 });
    let many = found(EXCLUSIVE, Some(false), &outbound(&several));
    let names = "it matches 2: kri_msvc_default_east__api_80, kri_msvc_default_east__web_80; select one by name";
    check_troubles(&many, &[(path, Why::Ambiguous, names)]);
    assert_eq!(many[0].means, ["kri_msvc_default_east__api_80", "kri_msvc_default_east__web_80"]);

    let no_port = json!({ "kind": "MeshService", "labels": { "team": "a" }, "port": 9 });
    let ports = "there is MeshService \"web\", \"api\", \"empty\", but with no port 9: use 80 or 81";
    check_troubles(&found(EXCLUSIVE, Some(false), &outbound(&no_port)), &[(path, Why::Unresolved, ports)]);
}

#[test]
fn unused_outbound_is_reported() {
    let path = "networking.outbound[0].backendRef";
    let gone = json!({ "kind": "MeshService", "name": "gone", "port": 80 });
    let redirected = found(EXCLUSIVE, Some(true), &outbound(&gone));
    check_troubles(&redirected, &[(path, Why::NoEffect, "in reachableBackends")]);
    let mut own = outbound(&json!({ "kind": "MeshService", "name": "web", "port": 80 }));
    own["address"] = json!("127.0.0.1");
    own["inbound"] = json!([{ "port": 1 }]);
    check_troubles(&found(EXCLUSIVE, None, &own), &[(path, Why::NoEffect, "127.0.0.1:1 is the address of an inbound")]);
    own["inbound"][0]["address"] = json!("10.0.0.1");
    check_troubles(&found(EXCLUSIVE, None, &own), &[]);
}

#[test]
fn reachable_lists_apply_to_transparent_proxies_only() {
    let (backends_path, services_path) =
        ["reachableBackends", "reachableServices"].map(|list| format!("networking.transparentProxying.{list}")).into();
    let mut both = backends(&json!([{ "kind": "MeshService", "name": "web" }]));
    both["transparentProxying"]["reachableServices"] = json!(["old"]);
    let unread = [
        (backends_path.as_str(), Why::NoEffect, "not redirected"),
        (services_path.as_str(), Why::NoEffect, "not redirected"),
    ];
    check_troubles(&found(EVERYWHERE, Some(false), &both), &unread);
    for known in [None, Some(true)] {
        let found = found(EVERYWHERE, known, &both);
        check_troubles(&found, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            (found[1].path.as_str(), found[1].means.as_slice()),
            (&*format!("{services_path}[0]"), &["old".to_owned()][..])
        );
    }
    let nothing = backends(&json!([]));
    assert_eq!(found(EVERYWHERE, Some(true), &nothing), []);
    check_troubles(&found(EVERYWHERE, Some(false), &nothing), &unread[..1]);
}

#[test]
fn reachable_services_report_hidden_objects() {
    let path = "networking.transparentProxying.reachableServices";
    let alone = json!({ "transparentProxying": { "reachableServices": ["old"] } });
    check_troubles(&found(DISABLED, None, &alone), &[(path, Why::HidesObjects, "all objects of the mesh (9)")]);
    for mode in [EVERYWHERE, MeshServicesMode::ReachableBackends] {
        check_troubles(&found(mode, None, &alone), &[]);
    }
    let entry = format!("{path}[0]");
    check_troubles(&found(EXCLUSIVE, None, &alone), &[(&entry, Why::Unresolved, "no MeshService")]);
    let mut both = backends(&json!([]));
    both["transparentProxying"]["reachableServices"] = json!(["old", "gone"]);
    check_troubles(&found(EXCLUSIVE, None, &both), &[(path, Why::NoEffect, "delete this list")]);
    check_troubles(&found(EVERYWHERE, None, &both), &[(&format!("{path}[1]"), Why::Unresolved, "start a Dataplane")]);
    let context =
        ReferenceContext { mode: EVERYWHERE, destinations: &[], objects: 0, is_served: &|_| true, redirected: None };
    check_troubles(&of(&proxy(&alone), context), &[]);
}

#[test]
fn reachable_services_include_the_objects_that_stand_for_them() {
    let listed =
        json!({ "transparentProxying": { "reachableServices": ["web", "till_shop_svc_80", "till_shop_svc_1"] } });
    let means = |mode| found(mode, None, &listed).into_iter().map(|one| one.means).collect::<Vec<_>>();
    let web = ["kri_msvc_default_east__web_80", "kri_msvc_default_east__web_81"].map(str::to_owned).to_vec();
    let till = vec!["kri_msvc_default_east_shop_till_80".to_owned()];
    for mode in [EVERYWHERE, EXCLUSIVE] {
        assert_eq!(means(mode), [web.clone(), till.clone(), vec![]], "{mode:?}");
    }
    assert_eq!(means(MeshServicesMode::ReachableBackends), [const { Vec::<String>::new() }; 3]);
}

#[test]
fn unserved_service_is_reported_with_the_object_of_that_name() {
    let entry = "networking.transparentProxying.reachableServices[0]";
    let mut networking = backends(&json!([]));
    networking["transparentProxying"]["reachableServices"] = json!(["web"]);
    let object = "no Dataplane serves kuma.io/service \"web\"; there is a MeshService of that name: list it in";
    check_troubles(&found(EVERYWHERE, None, &networking), &[(entry, Why::Unresolved, object)]);
    networking["inbound"] = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
    check_troubles(&found(EVERYWHERE, None, &networking), &[]);
}

#[test]
fn of_two_resources_with_one_kri_proxies_see_one() {
    let east = json!({ "kuma.io/zone": "east" });
    let twice: Vec<Arc<Destination>> = ["web-1", "web-2"]
        .map(|name| {
            let mut pairs = east.clone();
            pairs["kuma.io/display-name"] = json!("web");
            destination(BackendKind::MeshService, name, &pairs, &[80])
        })
        .into();
    let proxy = proxy(&outbound(&json!({ "kind": "MeshService", "name": "web", "port": 80 })));
    let context =
        ReferenceContext { mode: EXCLUSIVE, destinations: &twice, objects: 2, is_served: &|_| false, redirected: None };
    let found = of(&proxy, context);
    assert_eq!((found[0].means.len(), found[0].trouble.as_ref()), (1, None));
}
