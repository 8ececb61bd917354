//! apply, validate, delete.

use serde_json::json;

use crate::server::Server;
use crate::{Kodiak, timeout};

#[test]
fn creates_new_resources_and_skips_equal_ones() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    kodiak.file("a.yaml", &format!("{}---\n{}---\ntype: Zone\nname: east\n", timeout("a", "60s"), timeout("b", "5s")));
    let apply = || kodiak.run(&["--cp", &server.url(), "apply", "-f", "a.yaml"]);
    let first = apply().is(0);
    assert_eq!(
        first.out,
        "type=\"Zone\" name=\"east\" created\n\
         type=\"MeshTimeout\" mesh=\"default\" name=\"a\" created\n\
         type=\"MeshTimeout\" mesh=\"default\" name=\"b\" created\n\
         3 created, 0 changed, 0 unchanged, 0 failed\n"
    );
    server.requests();
    let again = apply().is(0);
    assert!(again.out.ends_with("0 created, 0 changed, 3 unchanged, 0 failed\n"), "{}", again.out);
    assert!(server.requests().iter().all(|request| request.starts_with("GET ")));

    kodiak.file("a.yaml", &timeout("a", "61s"));
    let dry = kodiak.run(&["--cp", &server.url(), "apply", "-f", "a.yaml", "--dry-run"]).is(0);
    assert!(dry.out.contains("name=\"a\" changed") && dry.out.contains("nothing was written"), "{}", dry.out);
    assert!(server.requests().iter().all(|request| request.starts_with("GET ")));
    let changed = apply().is(0);
    assert!(changed.out.contains("0 created, 1 changed, 0 unchanged"), "{}", changed.out);
}

#[test]
fn applies_a_folder_with_its_mesh() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    kodiak.file("mesh/a.yaml", &timeout("a", "5s").replace("mesh: default", "mesh: demo"));
    let apply = || kodiak.run(&["--cp", &server.url(), "apply", "-f", "mesh"]);
    let missing = apply().is(1);
    assert!(missing.err.contains("mesh/a.yaml:3:7"), "{}", missing.err);
    assert!(missing.err.contains("there is no mesh \"demo\"; apply it too"), "{}", missing.err);
    kodiak.file("mesh/z.yaml", "type: Mesh\nname: demo\n---\ntype: Secret\nmesh: demo\nname: s\ndata: dGVzdA==\n");
    server.requests();
    let dry = kodiak.run(&["--cp", &server.url(), "apply", "-f", "mesh", "--dry-run"]).is(0);
    assert!(dry.out.contains("3 created"), "{}", dry.out);
    apply().is(0);
    let puts: Vec<_> = server.requests().into_iter().filter(|request| request.starts_with("PUT")).collect();
    assert_eq!(puts, ["PUT /meshes/demo", "PUT /meshes/demo/secrets/s", "PUT /meshes/demo/meshtimeouts/a"]);
    assert!(apply().is(0).out.contains("3 unchanged"));
}

#[test]
fn sends_nothing_if_the_mesh_is_rejected() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    server.with(|state| state.refusals.insert("/meshes/demo".to_owned(), (403, "no".to_owned())));
    let text = format!("{}---\ntype: Mesh\nname: demo\n", timeout("a", "5s").replace("mesh: default", "mesh: demo"));
    let ran = kodiak.run_with(&["--cp", &server.url(), "apply", "-f", "-"], &text).is(1);
    assert!(ran.out.ends_with("0 created, 0 changed, 0 unchanged, 1 failed, 1 not sent\n"), "{}", ran.out);
}

#[test]
fn a_rejected_secret_does_not_stop_other_resources() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    server.with(|state| state.refusals.insert("/meshes/default/secrets/s".to_owned(), (403, "no".to_owned())));
    let text = format!("{}---\ntype: Secret\nname: s\ndata: dGVzdA==\n", timeout("a", "5s"));
    let ran = kodiak.run_with(&["--cp", &server.url(), "apply", "-f", "-"], &text).is(1);
    assert!(ran.out.ends_with("1 created, 0 changed, 0 unchanged, 1 failed\n"), "{}", ran.out);
}

#[test]
fn ignores_fields_that_the_control_plane_sets() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let text = "type: Dataplane\nmesh: default\nname: web-1\nnetworking:\n  address: 10.0.0.1\n  inbound:\n  - port: 80\n    tags: {kuma.io/service: web}\n";
    let apply = || kodiak.run_with(&["--cp", &server.url(), "apply", "-f", "-"], text);
    apply().is(0);
    server.with(|state| {
        let stored = state.resources.get_mut("/meshes/default/dataplanes/web-1").unwrap();
        stored["networking"]["inbound"][0]["tags"]["kuma.io/zone"] = "east".into();
        stored["labels"]["kuma.io/proxy-type"] = "sidecar".into();
    });
    assert!(apply().is(0).out.contains("1 unchanged"));
    server.with(|state| {
        let stored = state.resources.get_mut("/meshes/default/dataplanes/web-1").unwrap();
        stored["networking"]["address"] = "10.0.0.2".into();
    });
    assert!(apply().is(0).out.contains("1 changed"));
}

#[test]
fn retries_conflicts_and_stops_when_the_server_is_unreachable() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    server.with(|state| {
        let conflict = (409, r#"{"title":"Conflict","detail":"resource conflict"}"#.to_owned());
        state.refusals.insert("/meshes/default/meshtimeouts/a".to_owned(), conflict);
    });
    let text = timeout("a", "5s");
    kodiak.run_with(&["--cp", &server.url(), "apply", "-f", "-"], &text).is(1);
    assert_eq!(server.requests().iter().filter(|request| request.starts_with("PUT")).count(), 4);
    server.with(|state| state.asleep = true);
    let ran = kodiak.run_with(&["--cp", &server.url(), "--api-timeout", "100ms", "apply", "-f", "-"], &text).is(3);
    assert!(ran.err.contains("did not answer"), "{}", ran.err);
}

#[test]
fn sends_nothing_if_a_file_is_invalid() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    kodiak.file("mesh/a.yaml", &timeout("good", "5s"));
    kodiak.file("mesh/b.yaml", &timeout("bad", "-5s"));
    let ran = kodiak.run(&["--cp", &server.url(), "apply", "-f", "mesh"]).is(1);
    assert!(ran.err.contains("mesh/b.yaml:8:26"), "{}", ran.err);
    assert!(ran.err.contains("1 problem; nothing was sent"), "{}", ran.err);
    assert_eq!(server.requests(), Vec::<String>::new());
}

#[test]
fn shows_problems_of_the_server_in_the_file() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let refusal = json!({ "title": "Could not process a resource", "detail": "Resource is not valid",
        "invalid_parameters": [{ "field": "spec.to[0].default.connectionTimeout", "reason": "too long for this server" }] });
    server.with(|state| {
        state.refusals.insert("/meshes/default/meshtimeouts/bad".to_owned(), (400, refusal.to_string()));
        state.refusals.insert("/meshes/default/meshtimeouts/odd".to_owned(), (500, "out of order".to_owned()));
        let warning = vec!["this is deprecated".to_owned()];
        state.warnings.insert("/meshes/default/meshtimeouts/good".to_owned(), warning);
    });
    kodiak.file("a.yaml", &[timeout("bad", "5s"), timeout("good", "5s"), timeout("odd", "5s")].join("---\n"));
    let ran = kodiak.run(&["--cp", &server.url(), "apply", "-f", "a.yaml"]).is(1);
    expect_test::expect![[r#"
        error: MeshTimeout "bad": spec.to[0].default.connectionTimeout
         --> a.yaml:8:26
          |
        8 |       connectionTimeout: 5s
          |                          ^^ too long for this server

        error: MeshTimeout "odd"
          --> a.yaml:19:1
           |
        19 | type: MeshTimeout
           | ^ rejected by the control plane: 500 Internal Server Error (out of order)

        Warning: this is deprecated (a.yaml:10)
    "#]]
    .assert_eq(&ran.err);
    assert!(ran.out.ends_with("1 created, 0 changed, 0 unchanged, 2 failed\n"), "{}", ran.out);
}

#[test]
fn lists_many_resources_instead_of_requesting_each() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let many = |value: &str| (0..1500).map(|n| timeout(&format!("t-{n}"), value)).collect::<Vec<_>>().join("---\n");
    kodiak.file("many.yaml", &many("5s"));
    let apply = || kodiak.run(&["--cp", &server.url(), "apply", "-f", "many.yaml"]);
    let first = apply().is(0);
    assert_eq!(first.out, "1500 created, 0 changed, 0 unchanged, 0 failed\n");
    server.requests();
    let again = apply().is(0);
    assert_eq!(again.out, "0 created, 0 changed, 1500 unchanged, 0 failed\n");
    let lists = server.requests().into_iter().filter(|request| request.contains("/meshtimeouts")).collect::<Vec<_>>();
    assert_eq!(
        lists,
        ["GET /meshes/default/meshtimeouts?size=1000", "GET /meshes/default/meshtimeouts?size=1000&offset=1000"]
    );
    kodiak.file("many.yaml", &many("6s"));
    let verbose = kodiak.run(&["--cp", &server.url(), "apply", "-f", "many.yaml", "--verbose"]).is(0);
    assert_eq!(verbose.out.lines().count(), 1501);
    let connections = server.with(|state| state.connections);
    assert!(connections <= 3 * 64 + 3, "{connections} connections for {} requests", server.requests().len());
}

#[test]
fn replaces_placeholders_with_variables() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let text = timeout("{{ app.name }}", "{{t}}");
    let apply = |vars: &[&str]| {
        let url = server.url();
        let args = ["--cp", &url, "apply", "-f", "-"].iter().chain(vars).copied().collect::<Vec<_>>();
        kodiak.run_with(&args, &text)
    };
    apply(&["-v", "app.name=web", "-v", "t=5s"]).is(0);
    assert!(server.has("/meshes/default/meshtimeouts/web"));
    let missing = apply(&["-v", "t=5s"]).is(1);
    assert!(missing.err.contains("<stdin>:2:7") && missing.err.contains("-v app.name=VALUE"), "{}", missing.err);
    let unused = apply(&["-v", "app.name=web", "-v", "t=5s", "-v", "zone=x"]).is(0);
    assert!(unused.err.contains("\"zone\" is used nowhere"), "{}", unused.err);
}

#[test]
fn validate_needs_no_server() {
    let kodiak = Kodiak::new();
    kodiak.file(
        "good.yaml",
        &format!("{}---\n{}", timeout("a", "5s"), timeout("b", "5s").replace("spec:", "spec:\n  oops: 1")),
    );
    kodiak.file("bad.yaml", &timeout("c", "never"));
    let good = kodiak.run(&["validate", "-f", "good.yaml"]).is(0);
    assert_eq!(good.out, "good.yaml: ok (2 resources, 1 warning)\n");
    assert!(good.err.contains("Warning: unknown field spec.oops is ignored (good.yaml:10)"), "{}", good.err);
    let both = kodiak.run(&["validate", "-f", "good.yaml", "-f", "bad.yaml"]).is(1);
    assert!(both.out.contains("good.yaml: ok") && both.err.contains("bad.yaml: 1 problem"), "{both:?}");
    let zone = timeout("a", "5s").replace("spec:", "labels: {kuma.io/zone: west}\nspec:");
    assert!(kodiak.run_with(&["validate", "-f", "-"], &zone).is(1).err.contains("should have default value"));
    kodiak.run_with(&["validate", "-f", "-", "--zone", "west"], &zone).is(0);
}

#[test]
fn deletes_by_name_and_by_file() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    kodiak
        .file("a.yaml", &[timeout("a", "5s"), timeout("b", "5s"), "type: Zone\nname: east\n".to_owned()].join("---\n"));
    let run = |args: &[&str]| kodiak.run(&[&["--cp", &server.url()], args].concat());
    run(&["apply", "-f", "a.yaml"]).is(0);
    assert_eq!(run(&["delete", "mt", "a"]).is(0).out, "deleted MeshTimeout \"a\"\n");
    let again = run(&["delete", "meshtimeout", "a"]).is(1);
    assert!(again.err.contains("no MeshTimeout with name \"a\" in mesh \"default\""), "{}", again.err);
    run(&["delete", "meshtimeout", "a", "--ignore-not-found"]).is(0);
    let file = run(&["delete", "-f", "a.yaml", "--ignore-not-found"]).is(0);
    assert_eq!(file.out, "deleted MeshTimeout \"b\"\ndeleted Zone \"east\"\n");
    assert!(!server.has("/zones/east"));
    run(&["delete"]).is(2);
    run(&["delete", "meshtimeout"]).is(2);
}
