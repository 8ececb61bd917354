//! `kodiak diff` with a whole control plane, and its requests.

use serde_json::{Value, json};

use crate::inspect::Bed;
use crate::server::Server;
use crate::{Kodiak, timeout};

fn dataplane(name: &str, address: &str, service: &str, calls: &str) -> String {
    format!(
        "type: Dataplane\nmesh: default\nname: {name}\nnetworking:\n  address: {address}\n  inbound:\n  - port: 8080\n    \
         tags: {{kuma.io/service: {service}, kuma.io/protocol: http}}\n  outbound:\n  - port: 10001\n    \
         tags: {{kuma.io/service: {calls}}}\n"
    )
}

/// Policy that affects `web-1` and not `api-1`.
fn for_api(value: &str) -> String {
    timeout("api-calls", value).replace("{kind: Mesh}", "{kind: MeshService, name: api}")
}

fn bed() -> Bed {
    let bed = Bed::start();
    let both = [dataplane("api-1", "10.0.0.1", "api", "web"), dataplane("web-1", "10.0.0.2", "web", "api")];
    bed.kodiak.file("mesh.yaml", &both.join("---\n"));
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    bed
}

#[test]
fn shows_changed_proxies_and_writes_nothing() {
    let bed = bed();
    bed.kodiak.file("new.yaml", &for_api("7s"));
    let told = bed.run(&["diff", "-f", "new.yaml"]).is(0);
    let lines: Vec<_> = told.out.lines().collect();
    assert_eq!(lines[0], "type=\"MeshTimeout\" mesh=\"default\" name=\"api-calls\" would be created");
    assert!(lines[2].starts_with("PROXY") && lines[3].starts_with("web-1   0       0         1 "), "{}", told.out);
    assert!(lines.last().unwrap().starts_with("1 of 2 proxies would change, "), "{}", told.out);
    bed.run(&["get", "meshtimeout", "api-calls"]).is(1);

    let full = bed.run(&["diff", "-f", "new.yaml", "--full"]).is(0);
    assert!(full.out.contains("  ~ Cluster api, "), "{}", full.out);
    assert!(full.out.contains("    - /connectTimeout: \"5s\"\n    + /connectTimeout: \"7s\"\n"), "{}", full.out);

    let json = bed.run(&["diff", "-f", "new.yaml", "-o", "json"]).is(0);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json[0]["mesh"], &json[0]["proxies"][0]["name"]), (&json!("default"), &json!("web-1")));
    let yaml = bed.run(&["diff", "-f", "new.yaml", "-o", "yaml"]).is(0);
    assert!(yaml.out.contains("mesh: default"), "{}", yaml.out);

    bed.run(&["apply", "-f", "new.yaml"]).is(0);
    let again = bed.run(&["diff", "-f", "new.yaml"]).is(0);
    assert!(
        again.out.contains("is up to date") && again.out.ends_with("none of 2 proxies would change\n"),
        "{again:?}"
    );
    let deleted = bed.run(&["diff", "--delete", "mt/api-calls"]).is(0);
    assert!(deleted.out.contains("name=\"api-calls\" would be deleted\n"), "{}", deleted.out);
    assert!(deleted.out.contains("1 of 2 proxies would change"), "{}", deleted.out);
}

#[test]
fn reports_shadow_policies_and_invalid_configuration() {
    let bed = bed();
    bed.kodiak.file("tried.yaml", &for_api("7s").replace("spec:", "labels: {kuma.io/effect: shadow}\nspec:"));
    let tried = bed.run(&["diff", "-f", "tried.yaml"]).is(0);
    assert!(tried.out.ends_with("none of 2 proxies would change\n"), "{}", tried.out);
    assert!(tried.err.contains("kuma.io/effect: shadow") && tried.err.contains("tried.yaml:1"), "{}", tried.err);

    let twice = dataplane("web-1", "10.0.0.2", "web", "api").replace("  outbound:", "  - port: 8080\n  outbound:");
    bed.kodiak.file("broken.yaml", &twice);
    let broken = bed.run(&["diff", "-f", "broken.yaml"]).is(1);
    assert!(broken.out.contains("web-1 would keep last good versions:\n"), "{broken:?}");
    assert!(
        broken.out.contains("1 proxy would keep last good versions because") && broken.out.contains(":8080"),
        "{broken:?}"
    );
}

#[test]
fn shows_rejected_resources_in_the_file_and_compares_nothing() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let diff = |args: &[&str]| kodiak.run(&[&["--cp", &server.url(), "diff"], args].concat());
    kodiak.file("bad.yaml", &timeout("bad", "-5s"));
    let bad = diff(&["-f", "bad.yaml"]).is(1);
    assert!(bad.err.contains("bad.yaml:8:26") && bad.err.contains("1 problem; nothing was compared"), "{}", bad.err);
    assert_eq!(server.requests(), Vec::<String>::new());

    let field = "resources[1].spec.to[0].default.connectionTimeout";
    let refusal = json!({ "title": "Configuration diff failed", "detail": "Resource is not valid",
        "invalid_parameters": [{ "field": field, "reason": "too long for this server" }] });
    server.with(|state| state.refusals.insert("/meshes/default/_diff".to_owned(), (400, refusal.to_string())));
    kodiak.file("two.yaml", &format!("{}---\n{}", timeout("a", "5s"), timeout("b", "5s")));
    let refused = diff(&["-f", "two.yaml"]).is(1);
    assert!(refused.err.contains("two.yaml:17:26") && refused.err.contains("too long for this server"), "{refused:?}");

    let gone = json!({ "title": "Configuration diff failed", "detail": "there is no MeshTimeout \"x\" to delete" });
    server.with(|state| state.refusals.insert("/meshes/default/_diff".to_owned(), (404, gone.to_string())));
    let gone = diff(&["--delete", "meshtimeout/x"]).is(1);
    assert!(gone.err.contains("there is no MeshTimeout \"x\" to delete"), "{}", gone.err);
}

#[test]
fn sends_one_request_per_mesh_and_rejects_new_meshes() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let nothing = json!({ "changes": [], "proxies": [], "unchanged": 3, "bytes": 0, "faults": [] });
    server.with(|state| state.token = nothing.to_string());
    let demo = timeout("b", "5s").replace("mesh: default", "mesh: demo");
    let nowhere = timeout("c", "5s").replace("mesh: default\n", "");
    kodiak.file("all.yaml", &[timeout("a", "5s"), demo, nowhere, "type: Zone\nname: east\n".to_owned()].join("---\n"));
    let diff = |args: &[&str]| kodiak.run(&[&["--cp", &server.url(), "diff", "-f", "all.yaml"], args].concat());
    let missing = diff(&[]).is(1);
    assert!(missing.err.contains("all.yaml:12:7") && missing.err.contains("apply the mesh first"), "{}", missing.err);

    server.put("/meshes/demo", json!({ "type": "Mesh", "name": "demo" }));
    server.requests();
    let told = diff(&["-m", "demo", "--full", "--delete", "dataplane/web-1"]).is(0);
    assert_eq!(told.out.matches("none of 3 proxies would change\n").count(), 2, "{}", told.out);
    let posted: Vec<_> = server.requests().into_iter().filter(|request| request.starts_with("POST")).collect();
    assert_eq!(posted, ["POST /meshes/default/_diff?full=true", "POST /meshes/demo/_diff?full=true"]);
    let bodies = server.with(|state| std::mem::take(&mut state.bodies));
    let names = |body: &Value| {
        let names = body["resources"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(
        (names(&bodies[0]), names(&bodies[1])),
        (vec!["a".to_owned()], ["b", "c", "east"].map(str::to_owned).into())
    );
    assert_eq!(bodies[1]["deleted"], json!([{ "type": "Dataplane", "name": "web-1" }]));
    assert_eq!(bodies[0]["deleted"], json!([]));

    kodiak.file("all.yaml", "type: Mesh\nname: new\n---\ntype: Secret\nmesh: new\nname: s\ndata: dGVzdA==\n");
    let new = diff(&[]).is(1);
    assert!(new.err.contains("all.yaml:2:7") && new.err.contains("is new and has no proxies yet"), "{}", new.err);
}

#[test]
fn rejects_a_diff_without_changes() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    for (args, part) in [
        (&["diff"][..], "--delete KIND/NAME"),
        (&["diff", "--delete", "meshtimeout"], "meshtimeout/slow"),
        (&["diff", "--delete", "meshtimeout/"], "meshtimeout/slow"),
        (&["diff", "--delete", "meshtimout/x"], "did you mean"),
    ] {
        let ran = kodiak.run(&[&["--cp", &server.url()], args].concat()).is(2);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}
