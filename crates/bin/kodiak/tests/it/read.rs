//! get, export, who-am-i.

use serde_json::{Value, json};

use crate::Kodiak;
use crate::server::Server;

fn filled(count: usize) -> (Kodiak, Server) {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    for n in 0..count {
        let name = format!("t-{n:04}");
        let item = json!({ "type": "MeshTimeout", "mesh": "default", "name": name, "modificationTime": "0001-01-01T00:00:00Z", "kri": "kri_x",
            "labels": { "kuma.io/origin": "zone" }, "spec": { "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "connectionTimeout": "5s" } }] } });
        server.put(&format!("/meshes/default/meshtimeouts/{name}"), item);
    }
    (kodiak, server)
}

#[test]
fn lists_all_pages() {
    let (kodiak, server) = filled(2500);
    let url = server.url();
    let all = kodiak.run(&["--cp", &url, "get", "meshtimeouts"]).is(0);
    assert_eq!(all.out.lines().count(), 2501);
    assert!(all.out.starts_with("MESH      NAME     AGE\ndefault   t-0000   never\n"), "{}", &all.out[..100]);
    let page = kodiak.run(&["--cp", &url, "get", "mt", "--size", "2", "--offset", "10"]).is(0);
    assert_eq!(page.out, "MESH      NAME     AGE\ndefault   t-0010   never\ndefault   t-0011   never\n");
    assert!(page.err.contains("--offset=12"), "{}", page.err);
    let part = kodiak.run(&["--cp", &url, "get", "mt", "--name", "0042", "-o", "json"]).is(0);
    let part: Value = serde_json::from_str(&part.out).unwrap();
    assert_eq!((&part["total"], &part["next"], &part["items"][0]["name"]), (&json!(1), &Value::Null, &json!("t-0042")));
}

#[test]
fn rejects_responses_that_are_too_large_or_endless() {
    let (kodiak, server) = filled(3);
    let url = server.url();
    server.put("/zones/big", json!({ "type": "Zone", "name": "x".repeat(65 << 20) }));
    let big = kodiak.run(&["--cp", &url, "get", "zone", "big"]).is(1);
    assert!(big.err.contains("with more than 64 MiB"), "{}", big.err);
    server.with(|state| state.stuck = true);
    let stuck = kodiak.run(&["--cp", &url, "get", "meshtimeouts"]).is(1);
    assert!(stuck.err.contains("pages that do not end"), "{}", stuck.err);
    server.put("/who-am-i", json!([]));
    server.put("/meshes/default/meshtimeouts/odd", json!("\u{1b}[2J"));
    kodiak.run(&["--cp", &url, "get", "meshtimeout", "odd"]).is(0);
    kodiak.run(&["--cp", &url, "who-am-i"]).is(0);
}

#[test]
fn output_of_get_can_be_applied() {
    let (kodiak, server) = filled(3);
    let url = server.url();
    let one = kodiak.run(&["--cp", &url, "get", "meshtimeout", "t-0001", "-o", "yaml"]).is(0);
    assert!(one.out.starts_with("type: MeshTimeout\nmesh: default\nname: t-0001\n"), "{}", one.out);
    let all = kodiak.run(&["--cp", &url, "get", "meshtimeouts", "-o", "yaml"]).is(0);
    assert_eq!(all.out.matches("---\n").count(), 2);
    let applied = kodiak.run_with(&["--cp", &url, "apply", "-f", "-"], &all.out).is(0);
    assert!(applied.out.ends_with("0 created, 0 changed, 3 unchanged, 0 failed\n"), "{}", applied.out);
}

#[test]
fn reports_missing_resources() {
    let (kodiak, server) = filled(0);
    let url = server.url();
    let one = kodiak.run(&["--cp", &url, "get", "meshtimeout", "x"]).is(1);
    assert_eq!(one.err, "Error: no MeshTimeout with name \"x\" in mesh \"default\"\n");
    let none = kodiak.run(&["--cp", &url, "get", "meshtimeouts"]).is(0);
    assert_eq!((none.out.as_str(), none.err.as_str()), ("", "no MeshTimeout found in mesh \"default\"\n"));
    let mesh = kodiak.run(&["--cp", &url, "get", "meshtimeouts", "-m", "other"]).is(1);
    assert!(mesh.err.contains("no Mesh with name \"other\""), "{}", mesh.err);
    let typo = kodiak.run(&["--cp", &url, "get", "meshtimout"]).is(2);
    assert!(typo.err.contains("did you mean MeshTimeout?"), "{}", typo.err);
}

#[test]
fn shows_dataplanes_with_their_overviews() {
    let (kodiak, server) = filled(0);
    let overview = json!({ "type": "DataplaneOverview", "mesh": "default", "name": "web-1", "modificationTime": "0001-01-01T00:00:00Z",
        "dataplane": { "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": "web" } }] } },
        "dataplaneInsight": { "subscriptions": [{ "connectTime": "2026-11-15T12:00:00Z" }] } });
    server.put("/meshes/default/dataplanes/web-1", overview);
    let table = "MESH      NAME    TAGS                  ADDRESS    STATUS   XDS   VERSION   AGE\n\
                 default   web-1   kuma.io/service=web   10.0.0.1   Online   -     -         never\n";
    let url = server.url();
    assert_eq!(kodiak.run(&["--cp", &url, "get", "dataplanes"]).is(0).out, table);
    assert_eq!(kodiak.run(&["--cp", &url, "get", "dp", "web-1"]).is(0).out, table);
    assert_eq!(
        server.requests(),
        ["GET /meshes/default/dataplanes/_overview?size=1000", "GET /meshes/default/dataplanes/web-1/_overview"]
    );
    kodiak.run(&["--cp", &url, "get", "dataplanes", "-A", "-o", "json", "--filter", "kuma.io/zone=east"]).is(0);
    assert_eq!(server.requests(), ["GET /dataplanes?size=1000&filter%5Blabels.kuma.io%2Fzone%5D=east"]);
}

#[test]
fn lists_kinds_without_a_server() {
    let table = Kodiak::new().run(&["get", "kinds"]).is(0).out;
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(table.lines().next().unwrap()), ["NAME", "PATH", "SHORT", "SCOPE", "POLICY"]);
    let row = table.lines().find(|line| line.starts_with("MeshTimeout ")).unwrap();
    assert_eq!(words(row), ["MeshTimeout", "meshtimeouts", "mt", "Mesh", "yes"]);
}

#[test]
fn who_am_i_sends_the_token() {
    let (kodiak, server) = filled(0);
    server.put("/who-am-i", json!({ "name": "jo", "groups": ["a", "b"] }));
    kodiak
        .run(&[
            "config",
            "control-planes",
            "add",
            "--name",
            "x",
            "--address",
            &server.url(),
            "--auth-type",
            "tokens",
            "--auth-conf",
            "token=abc",
        ])
        .is(0);
    assert_eq!(kodiak.run(&["who-am-i"]).is(0).out, "name: jo\ngroups: a, b\n");
    let tokens = server.with(|state| state.requests.iter().map(|(_, token)| token.clone()).collect::<Vec<_>>());
    assert!(tokens.iter().all(|token| token.as_deref() == Some("Bearer abc")), "{tokens:?}");
}

#[test]
fn export_can_be_applied_to_another_control_plane() {
    let (kodiak, server) = filled(3);
    let kinds = json!({ "resources": [
        { "name": "Mesh", "includeInFederation": true }, { "name": "MeshTimeout", "includeInFederation": true }, { "name": "Zone", "includeInFederation": false }, { "name": "Novelty" },
    ] });
    server.put("/_resources", kinds);
    server.put("/zones/east", json!({ "type": "Zone", "name": "east" }));
    let url = server.url();
    let all = kodiak.run(&["--cp", &url, "export", "--profile", "all"]).is(0);
    assert!(all.err.contains("does not know them: Novelty"), "{}", all.err);
    assert!(all.out.starts_with("# Product: Kodiak, Version: 0.9.0"), "{}", all.out);
    assert!(all.out.contains("type: Zone") && !all.out.contains("kri_x"), "{}", all.out);
    let federation = kodiak.run(&["--cp", &url, "export", "-p", "federation-with-policies", "--out", "out/"]).is(0);
    assert!(federation.err.contains("resources written to out/"), "{}", federation.err);
    let elsewhere = Server::start();
    let applied = kodiak.run(&["--cp", &elsewhere.url(), "apply", "-f", "out"]).is(0);
    assert!(applied.out.contains("4 created") || applied.out.contains("3 created"), "{}", applied.out);
    assert!(elsewhere.has("/meshes/default/meshtimeouts/t-0002") && !elsewhere.has("/zones/east"));
}
