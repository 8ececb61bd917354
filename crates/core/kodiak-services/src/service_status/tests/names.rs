//! Hostnames, and the services of other kinds.

use kodiak_model::kinds::{
    mesh_external_service::MeshExternalServiceStatus, mesh_multi_zone_service::MeshMultiZoneServiceStatus,
};

use super::*;

fn key(kind: BackendKind, text: &str) -> ServiceKey {
    ServiceKey { kind, ..service(text) }
}

fn status_of(kept: &Kept, kind: BackendKind, text: &str) -> Value {
    let stored = &kept.world.services[&key(kind, text)];
    match &stored.content {
        Content::Service { status, .. } => serde_json::to_value(status).unwrap(),
        Content::External { status, .. } => serde_json::to_value(status).unwrap(),
        Content::MultiZone { status, .. } => serde_json::to_value(status).unwrap(),
    }
}

fn put_external(kept: &mut Kept, text: &str) {
    let status = MeshExternalServiceStatus::default();
    kept.put(&key(BackendKind::MeshExternalService, text), &json!({}), Content::External { fault: None, status });
}

fn put_group(kept: &mut Kept, text: &str, selector: &Value) {
    let spec = json!({ "selector": { "meshService": selector }, "ports": [{ "port": 80 }] });
    let spec = serde_json::from_value(spec).unwrap();
    let status = MeshMultiZoneServiceStatus::default();
    kept.put(&key(BackendKind::MeshMultiZoneService, text), &json!({}), Content::MultiZone { spec, status });
}

#[test]
fn hostnames_follow_their_generators() {
    let mut kept = Kept::new();
    kept.put_service("web", &json!({}), &json!({}));
    put_external(&mut kept, "mail");
    kept.generator("ext", &json!({ "selector": { "meshExternalService": {} }, "template": "{{ .Name }}.ext.mesh" }));
    kept.settle();
    let mail = status_of(&kept, BackendKind::MeshExternalService, "mail");
    assert_eq!(mail["vip"], json!({ "ip": "242.0.0.0" }));
    assert_eq!(mail["addresses"][0]["hostname"], "mail.ext.mesh");
    assert_eq!(kept.world.status("web").addresses, []);
    kept.generator("svc", &json!({ "selector": { "meshService": {} }, "template": "{{ .Name }}.mesh" }));
    let written = kept.settle();
    assert_eq!(written.len(), 1, "only whom it names");
    assert_eq!(kept.world.status("web").addresses[0].hostname, "web.mesh");
    kept.keeper.set_generator(&name("svc"), None);
    kept.settle();
    assert_eq!(kept.world.status("web").addresses, []);
    assert_eq!(kept.world.status("web").hostname_generators, []);
}

#[test]
fn multi_zone_service_has_the_services_that_match() {
    let mut kept = Kept::new();
    put_group(&mut kept, "all", &json!({ "matchLabels": { "app": "web" } }));
    let group = |kept: &mut Kept| {
        kept.settle();
        let status = status_of(kept, BackendKind::MeshMultiZoneService, "all");
        assert_eq!(status["vips"], json!([{ "ip": "243.0.0.0" }]));
        let names: Vec<String> = status["meshServices"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|matched| format!("{}/{}", matched["name"].as_str().unwrap(), matched["zone"].as_str().unwrap()))
            .collect();
        (names.join(" "), status["conditions"][0]["reason"].as_str().unwrap().to_owned())
    };
    let nobody = (String::new(), "NoMatchesFound".to_owned());
    assert_eq!(group(&mut kept), nobody);
    kept.put_service("b", &json!({ "app": "web", "kuma.io/zone": "east" }), &json!({}));
    kept.put_service("c", &json!({ "app": "db" }), &json!({}));
    let synced =
        json!({ "app": "web", "kuma.io/zone": "west", "kuma.io/origin": "global", "kuma.io/display-name": "a" });
    kept.put_service("a-x7", &synced, &json!({}));
    assert_eq!(group(&mut kept), ("a/west b/east".to_owned(), "MatchesFound".to_owned()));
    kept.delete(&service("b"));
    assert_eq!(group(&mut kept).0, "a/west");
    kept.put_service("a-x7", &json!({}), &json!({}));
    assert_eq!(group(&mut kept), nobody);
    let elsewhere = ServiceKey { mesh: name("other"), ..service("far") };
    let content = Content::Service { spec: MeshService::default(), status: MeshServiceStatus::default() };
    kept.put(&elsewhere, &json!({ "app": "web" }), content);
    assert_eq!(group(&mut kept), nobody, "another mesh is another mesh");
    put_group(&mut kept, "all", &json!({ "matchLabels": { "app": "db" } }));
    assert_eq!(group(&mut kept).0, "c/");
}

#[test]
fn multi_zone_service_without_selector_has_no_services() {
    let mut kept = Kept::new();
    kept.put_service("a", &json!({ "app": "web" }), &json!({}));
    put_group(&mut kept, "all", &json!({}));
    kept.settle();
    assert_eq!(status_of(&kept, BackendKind::MeshMultiZoneService, "all")["meshServices"], Value::Null);
}

#[test]
fn changes_of_proxies_do_not_affect_multi_zone_services() {
    let mut kept = Kept::new();
    put_group(&mut kept, "all", &json!({ "matchLabels": { "kuma.io/display-name": "web" } }));
    kept.serving("a", "web");
    kept.settle();
    kept.serving("b", "web");
    let written = kept.settle();
    assert!(!written.is_empty() && written.iter().all(|wanted| wanted.key == service("web")));
}
