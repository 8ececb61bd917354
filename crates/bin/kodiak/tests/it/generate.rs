//! Tokens and keys.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::Kodiak;
use crate::server::Server;

#[test]
fn control_plane_issues_tokens() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    server.with(|state| state.token = "a.b.c".to_owned());
    let url = server.url();
    let run = |args: &str| kodiak.run(&[&["--cp", &url, "generate"], &*args.split(' ').collect::<Vec<_>>()].concat());
    let dataplane = run("dataplane-token --name web-1 --tag kuma.io/service=web,api --workload w --valid-for 1d").is(0);
    assert_eq!(dataplane.out, "a.b.c", "no newline after a token");
    run("zone-token --zone east --scope ingress --valid-for 1h").is(0);
    run("user-token --name jo --group a --group b --valid-for 10m").is(0);
    run("user-token --name jo --valid-for soon").is(2);
    run("user-token --name jo").is(2);
    assert_eq!(server.requests(), ["POST /tokens/dataplane", "POST /tokens/zone", "POST /tokens/user"]);
    assert_eq!(
        server.with(|state| std::mem::take(&mut state.bodies)),
        [
            json!({ "name": "web-1", "mesh": "default", "tags": { "kuma.io/service": ["web", "api"] }, "type": "dataplane", "workload": "w", "validFor": "86400s" }),
            json!({ "zone": "east", "scope": ["ingress"], "validFor": "3600s" }),
            json!({ "name": "jo", "groups": ["a", "b"], "validFor": "600s" }),
        ]
    );
}

#[test]
fn signs_tokens_offline() {
    let kodiak = Kodiak::new();
    for format in ["pem", "pem-base64"] {
        let key = kodiak.run(&["generate", "signing-key", "--format", format]).is(0).out;
        let file = kodiak.file("key", &key);
        let file = file.to_str().unwrap();
        let args = ["generate", "user-token", "--name", "jo", "--valid-for", "1h", "--signing-key-path", file];
        kodiak.run(&args).is(2);
        let token = kodiak.run(&[&args[..], &["--kid", "7"]].concat()).is(0).out;
        let parts: Vec<Value> = token
            .split('.')
            .take(2)
            .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap())
            .collect();
        assert_eq!((&parts[0]["kid"], &parts[1]["Name"]), (&json!("7"), &json!("jo")));
        let public = kodiak.run(&["generate", "public-key", "--signing-key-path", file]).is(0).out;
        assert!(public.starts_with("-----BEGIN PUBLIC KEY-----"), "{public}");
    }
    kodiak.file("key", "no key");
    kodiak.run(&["generate", "public-key", "--signing-key-path", "key"]).is(2);
}
