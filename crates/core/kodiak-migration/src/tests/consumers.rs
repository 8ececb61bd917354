//! Who calls what, by which names.

use super::*;
use crate::{Consumer, Known, Lists, Standing};

const SILENT: Known = Known { connected: false, redirected: None };

impl World {
    fn standing(&self) -> Standing {
        let policies = self.specs.iter().map(|(policy, spec)| (&**policy, spec));
        Standing::of("default", &Landscape::of(&self.view), policies)
    }

    fn consumer(&self, name: &str, known: Known) -> Consumer {
        Consumer::of(&self.view.proxies[name], known, &Landscape::of(&self.view), &self.standing().policies)
    }
}

/// `client` in zone `east`, with `web` and `api` beside it and `api` in zone `west` too.
fn world(mode: MeshServicesMode, networking: &Value) -> World {
    let mut world = World::new(mode);
    world.serves("web-1", "web");
    world.serves("api-1", "api");
    world.serves_in("west", "api-2", "api");
    world.proxy("client", json!({ "kuma.io/zone": "east" }), networking);
    world.generated("web");
    world.generated("api");
    world
}

fn redirected(more: &Value) -> Value {
    let mut transparent = json!({ "redirectPortOutbound": 15001 });
    transparent.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({ "transparentProxying": transparent })
}

#[test]
fn outbounds_depend_on_mode_and_reachable_lists() {
    let backends = json!({ "reachableBackends": { "refs": [{ "kind": "MeshService", "name": "web" }] } });
    let services = json!({ "reachableServices": ["web"] });
    let explicit = json!({ "outbound": [
        { "port": 1, "tags": { "kuma.io/service": "api" } },
        { "port": 2, "backendRef": { "kind": "MeshService", "name": "web", "port": 8080 } },
    ] });
    let all = &["api", "web"][..];
    for (mode, networking, lists, old, new) in [
        // None is made then, but those that are there are called.
        (MeshServicesMode::Disabled, redirected(&json!({})), Lists::Nothing, all, 2),
        (MeshServicesMode::Everywhere, redirected(&json!({})), Lists::Nothing, all, 2),
        (MeshServicesMode::Everywhere, redirected(&services), Lists::Services, &["web"], 1),
        (MeshServicesMode::Exclusive, redirected(&services), Lists::Services, &[], 1),
        (MeshServicesMode::Exclusive, explicit.clone(), Lists::Outbounds, &[], 1),
        (MeshServicesMode::ReachableBackends, redirected(&json!({})), Lists::Nothing, all, 0),
        (MeshServicesMode::ReachableBackends, redirected(&backends), Lists::Backends, all, 1),
        (MeshServicesMode::Exclusive, redirected(&json!({})), Lists::Nothing, &[], 2),
        (MeshServicesMode::Everywhere, explicit, Lists::Outbounds, &["api"], 1),
    ] {
        let consumer = world(mode, &networking).consumer("client", SILENT);
        assert_eq!(
            (consumer.lists, consumer.old.as_slice(), consumer.new),
            (lists, &*old.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>(), new),
            "{mode:?} {networking}"
        );
    }
}

#[test]
fn insight_decides_whether_a_proxy_is_transparent() {
    let consumer = |redirected| {
        world(MeshServicesMode::Everywhere, &json!({})).consumer("client", Known { connected: true, redirected })
    };
    assert_eq!((consumer(Some(true)).old.len(), consumer(None).old.len(), consumer(None).connected), (2, 0, true));
    let written = world(MeshServicesMode::Everywhere, &redirected(&json!({})));
    assert_eq!(
        written.consumer("client", Known { connected: true, redirected: Some(false) }).old,
        Vec::<String>::new()
    );
}

#[test]
fn calls_to_other_zones_are_reported() {
    let mut world = world(MeshServicesMode::Everywhere, &redirected(&json!({})));
    assert_eq!(world.consumer("client", SILENT).cross_zone, ["api"]);
    assert_eq!(world.consumer("api-2", Known { connected: true, redirected: Some(true) }).cross_zone, ["api", "web"]);
    let api = |standing: &Standing| standing.services.iter().find(|service| service.service == "api").unwrap().clone();
    let before = api(&world.standing());
    assert_eq!((before.zones.len(), before.in_all_zones, before.proxies), (2, false, 2));
    let spec = json!({ "selector": { "meshService": { "matchLabels": { "kuma.io/display-name": "api" } } } });
    world.object(BackendKind::MeshMultiZoneService, "api", json!({}), &spec);
    let after = api(&world.standing());
    assert!(after.in_all_zones && after.generated);
    assert_eq!(
        (after.objects[0].hostnames.as_slice(), after.objects[0].ports.as_slice()),
        (&["api.svc.mesh.local".to_owned()][..], &[8080][..])
    );
}

#[test]
fn policy_affects_selected_callers_of_its_targets() {
    let mut world = world(
        MeshServicesMode::Everywhere,
        &json!({ "outbound": [{ "port": 1, "tags": { "kuma.io/service": "api" } }] }),
    );
    world.policy(&TIMEOUT, "of-api", json!({ "to": [item(&by_name("api"))] }));
    world.policy(&TIMEOUT, "of-web", json!({ "to": [item(&by_name("web"))] }));
    world.policy(
        &TIMEOUT,
        "of-others",
        json!({ "targetRef": { "kind": "MeshSubset", "tags": { "a": "b" } }, "to": [item(&by_name("api"))] }),
    );
    world.policy(&TIMEOUT, "new", json!({ "to": [item(&json!({ "kind": "Mesh" }))] }));
    world.policy(&ROUTE, "split", json!({ "to": [{ "targetRef": by_name("api"), "rules": [] }] }));
    let consumer = world.consumer("client", SILENT);
    assert_eq!(
        (consumer.policies.as_slice(), consumer.routes.as_slice()),
        (&["MeshTimeout of-api".to_owned()][..], &["MeshHTTPRoute split".to_owned()][..])
    );
    assert_eq!(world.standing().policies.len(), 4, "one has nothing old");
    let idle = world.consumer("web-1", SILENT);
    assert_eq!((idle.new, idle.policies.len(), idle.routes.len()), (0, 0, 0), "it calls nobody");
}
