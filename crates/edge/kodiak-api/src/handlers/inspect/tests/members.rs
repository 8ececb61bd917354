//! Proxies of policies and services, and hostnames.

use serde_json::json;

use super::{World, for_callers, texts};

#[tokio::test]
async fn members_are_paged() {
    let world = World::new("Disabled").await;
    for (name, service) in [("a-1", "a"), ("a-2", "a"), ("a-3", "a"), ("b-1", "b"), ("other-a", "a")] {
        let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": service } }]);
        world.dataplane(name, json!({ "inbound": inbound })).await;
    }
    world.service("a").await;
    let tried = json!({ "kuma.io/effect": "shadow" });
    let spec =
        json!({ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": "a" } }, "rules": for_callers(1) });
    world.labelled("MeshTimeout", "meshtimeouts", "of-a", tried, spec).await;
    let of_policy = "/meshes/default/meshtimeouts/of-a/_resources/dataplanes";
    for path in [
        of_policy,
        "/meshes/default/meshservices/a/_resources/dataplanes",
        "/meshes/default/meshservices/a/_dataplanes",
    ] {
        let all = world.get(path).await;
        assert_eq!(texts(&all["items"], "/name"), ["a-1", "a-2", "a-3", "other-a"], "{path}");
        assert_eq!((&all["total"], all.get("next")), (&json!(4), None));
        let page = world.get(&format!("{path}?name=a-&size=2")).await;
        assert_eq!(texts(&page["items"], "/name"), ["a-1", "a-2"], "{path}");
        assert_eq!(page["total"], 3);
        assert_eq!(page["next"], format!("http://localhost:5681{path}?name=a-&offset=2&size=2"));
        let last = world.get(&format!("{path}?name=a-&size=2&offset=2")).await;
        assert_eq!((texts(&last["items"], "/name"), last.get("next")), (vec!["a-3"], None));
        assert_eq!(world.refused(&format!("{path}?size=0")).await.2, "Invalid page size");
    }
    let missing = world.refused("/meshes/default/meshtimeouts/gone/_resources/dataplanes").await;
    assert_eq!(missing, (404, "Could not retrieve policy".to_owned(), "Not found".to_owned()));
}

#[tokio::test]
async fn only_services_have_hostnames() {
    let world = World::new("Exclusive").await;
    world.service("api").await;
    let selector = json!({ "meshService": { "matchLabels": { "kuma.io/zone": "east" } } });
    let spec = json!({ "template": "{{ .DisplayName }}.{{ .Zone }}.mesh", "selector": selector });
    let generator = json!({ "type": "HostnameGenerator", "name": "east", "spec": spec });
    world.write("/hostnamegenerators/east", &generator).await;
    let found = world.get("/meshes/default/meshservices/api/_hostnames").await;
    assert_eq!(found, json!({ "total": 1, "items": [{ "hostname": "api.east.mesh", "zones": [{ "name": "east" }] }] }));
    let gone = world.refused("/meshes/default/meshmultizoneservices/gone/_hostnames").await;
    assert_eq!(gone, (404, "could not retrieve service".to_owned(), "Not found".to_owned()));
    let other = world.refused("/meshes/default/meshtimeouts/x/_hostnames").await;
    let title = r#"only "meshservices,meshexternalservices,meshmultizoneservices" are available for inspection"#;
    assert_eq!(other, (400, title.to_owned(), "Resource is not valid".to_owned()));
}
