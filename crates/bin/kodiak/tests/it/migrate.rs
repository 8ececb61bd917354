//! `kodiak migrate services` with a whole control plane.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use kodiak_dp::run::{Options, Proxy, Runner, Token};
use kodiak_testkit::envoy::envoy;
use serde_json::{Value, json};

use crate::inspect::Bed;
use crate::timeout;

/// Serves one service, and calls `api`.
fn dataplane(name: &str, address: &str, service: &str) -> String {
    format!(
        "type: Dataplane\nmesh: default\nname: {name}\nnetworking:\n  address: {address}\n  inbound:\n  - port: 8080\n    \
         tags: {{kuma.io/service: {service}, kuma.io/protocol: http}}\n  outbound:\n  - port: 10001\n    \
         tags: {{kuma.io/service: api}}\n"
    )
}

fn service(name: &str, selects: &str) -> String {
    format!(
        "type: MeshService\nmesh: default\nname: {name}\nspec:\n  selector:\n    dataplaneTags: {{kuma.io/service: {selects}}}\n  \
         ports:\n  - {{port: 80, name: http, targetPort: 8080, appProtocol: http}}\n"
    )
}

/// A timeout for calls of one service.
fn of_calls(name: &str, called: &str, value: &str) -> String {
    timeout(name, value).replace("{kind: Mesh}", &format!("{{kind: MeshService, name: {called}}}"))
}

const ROUTE: &str = "\
type: MeshHTTPRoute
mesh: default
name: split
spec:
  to:
  - targetRef: {kind: MeshService, name: api}
    rules:
    - matches: [{path: {type: PathPrefix, value: /}}]
      default:
        backendRefs: [{kind: MeshService, name: api, weight: 1}, {kind: MeshService, name: web, weight: 1}]
";

/// Two proxies; of the two services, one is a MeshService that somebody wrote, and one a MeshService of another.
fn bed() -> Bed {
    let bed = Bed::start();
    let all = [
        dataplane("api-1", "10.0.0.1", "api"),
        dataplane("web-1", "10.0.0.2", "web"),
        service("api", "api"),
        service("web", "api"),
        of_calls("a-clear", "api", "7s"),
        of_calls("b-other", "web", "8s"),
        of_calls("c-gone", "gone", "9s"),
        ROUTE.to_owned(),
    ];
    bed.kodiak.file("mesh.yaml", &all.join("---\n"));
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    bed
}

const CONVERT: [&str; 3] = ["migrate", "services", "convert"];

fn convert(bed: &Bed, args: &[&str]) -> crate::Ran {
    bed.run(&[&CONVERT[..], args].concat())
}

#[test]
fn converts_unambiguous_references_and_explains_the_others() {
    let bed = bed();
    let told = convert(&bed, &[]).is(0);
    for part in [
        "MeshTimeout a-clear   spec.to[0].targetRef   MeshService api   MeshService api port http\n",
        "MeshTimeout b-other spec.to[0].targetRef: MeshService web\n    MeshService \"web\" selects other proxies than kuma.io/service: web does \
         (only the tag: web-1; only the MeshService: api-1)\n",
        "MeshTimeout c-gone spec.to[0].targetRef: MeshService gone\n    there is no MeshService \"gone\"",
        "MeshHTTPRoute split spec.to[0].targetRef: MeshService api (MeshService api port http)\n",
        "MeshHTTPRoute split spec.to[0].rules[0].default.backendRefs[1]: MeshService web\n",
        "Mesh default: 1 policy changes, 0 are converted already, 2 are ambiguous, 1 route to review\n",
        "Proof: 2 proxies compared before and after the conversion: 0 proxies change\n",
    ] {
        assert!(told.out.contains(part), "{part}\n{}", told.out);
    }
    assert!(told.err.contains("Nothing was written"), "{}", told.err);

    let applied = convert(&bed, &["--mesh", "default", "--apply"]).is(0);
    assert!(
        applied.out.contains("type=\"MeshTimeout\" mesh=\"default\" name=\"a-clear\" changed\n"),
        "{}",
        applied.out
    );
    let stored = bed.run(&["get", "meshtimeout", "a-clear", "-o", "json"]).is(0);
    let stored: Value = serde_json::from_str(&stored.out).unwrap();
    assert_eq!(stored["spec"]["to"][0]["targetRef"], json!({ "kind": "MeshService", "name": "api" }));
    let new = json!({ "kind": "MeshService", "name": "api", "sectionName": "http" });
    assert_eq!((&stored["spec"]["to"][1]["targetRef"], stored["spec"]["to"].as_array().unwrap().len()), (&new, 2));
    assert_eq!(stored["spec"]["to"][0]["default"], stored["spec"]["to"][1]["default"]);

    // There is nothing left to do, here and for those who compare.
    let again = convert(&bed, &["--apply"]).is(0);
    assert!(
        again.out.contains("0 policies change, 1 is converted already") && !again.out.contains("Proof"),
        "{}",
        again.out
    );
    convert(&bed, &["--write", "again.yaml"]).is(0);
    bed.kodiak.file("stored.json", &stored.to_string());
    let diff = bed.run(&["diff", "-f", "stored.json"]).is(0);
    assert!(diff.out.contains("is up to date") && diff.out.contains("none of 2 proxies would change"), "{}", diff.out);
}

#[test]
fn keeps_legacy_references_that_are_in_use() {
    let bed = bed();
    let refused = convert(&bed, &["--replace", "--apply"]).is(1);
    assert!(refused.out.contains("PROXY   ADDED   REMOVED   CHANGED\n"), "{}", refused.out);
    assert!(refused.out.contains("after the conversion: 2 proxies change\n"), "{}", refused.out);
    assert!(refused.err.contains("nothing was written; use --accept-changes"), "{}", refused.err);
    let items = |bed: &Bed| {
        let stored = bed.run(&["get", "meshtimeout", "a-clear", "-o", "json"]).is(0).out;
        serde_json::from_str::<Value>(&stored).unwrap()["spec"]["to"].as_array().unwrap().len()
    };
    assert_eq!(items(&bed), 1);
    convert(&bed, &["--apply"]).is(0);
    assert_eq!(items(&bed), 2);
    convert(&bed, &["--replace", "--apply", "--accept-changes"]).is(0);
    assert_eq!(items(&bed), 1);
    convert(&bed, &["--accept-changes"]).is(2);
    convert(&bed, &["--apply", "--write", "x.yaml"]).is(2);
}

#[test]
fn converts_files_and_compares_proxies_with_the_unconverted_files() {
    let bed = bed();
    // Another one than is stored, one that is not, and something that is no policy.
    let files = [of_calls("a-clear", "api", "3s"), of_calls("d-new", "api", "4s"), service("api", "api")];
    bed.kodiak.file("in.yaml", &files.join("---\n"));
    let told = convert(&bed, &["-f", "in.yaml", "--write", "out.yaml"]).is(0);
    assert!(
        told.out.contains("Mesh default: 2 policies change") && told.out.contains("0 proxies change\n"),
        "{}",
        told.out
    );
    assert!(told.err.contains("3 documents written to out.yaml"), "{}", told.err);
    bed.run(&["validate", "-f", "out.yaml"]).is(0);
    bed.run(&["apply", "-f", "out.yaml"]).is(0);
    let once = convert(&bed, &["-f", "out.yaml", "--write", "-"]).is(0);
    assert_eq!(
        once.out.trim_end(),
        std::fs::read_to_string(bed.kodiak.home.path().join("out.yaml")).unwrap().trim_end()
    );
    assert!(once.err.contains("0 policies change, 2 are converted already"), "{}", once.err);

    let json = convert(&bed, &["-f", "in.yaml", "-o", "json"]).is(0);
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json[0]["mesh"], &json[0]["items"][1]["changed"]), (&json!("default"), &json!(true)));
    assert_eq!(json[0]["proof"]["changed"], json!([]));
    assert!(convert(&bed, &["-o", "yaml"]).is(0).out.contains("outcome: Unclear"));

    bed.kodiak.file("bad.yaml", &timeout("bad", "-5s"));
    let bad = convert(&bed, &["-f", "bad.yaml"]).is(1);
    assert!(bad.err.contains("bad.yaml:8:26") && bad.err.contains("1 problem; nothing was converted"), "{}", bad.err);
    let nowhere = convert(&bed, &["-m", "none"]).is(1);
    assert!(nowhere.err.contains("no Mesh with name \"none\""), "{}", nowhere.err);
}

#[test]
fn shows_consumers_and_the_next_step_with_its_command() {
    let bed = bed();
    let services = |args: &[&str]| bed.run(&[&["migrate", "services"], args].concat());
    let status = services(&["status"]).is(0);
    let lines: Vec<_> = status.out.lines().collect();
    assert!(lines[0].starts_with("DATAPLANE   MODE       OLD   NEW   OLD TRAFFIC"), "{}", status.out);
    assert!(lines[2].starts_with("web-1       Disabled   1     0     -  "), "{}", status.out);
    for part in [
        "2 proxies in mesh default (Disabled): 0 called",
        "1 policy uses kuma.io/service only",
        "1 route uses kuma.io/service",
    ] {
        assert!(status.out.contains(part), "{part}\n{}", status.out);
    }
    let json: Value = serde_json::from_str(&services(&["status", "-o", "json"]).is(0).out).unwrap();
    let web = &json["consumers"][1];
    assert_eq!(
        (&web["old"], &web["policies"], &web["routes"]),
        (&json!(["api"]), &json!(["MeshTimeout a-clear"]), &json!(["MeshHTTPRoute split"]))
    );
    assert_eq!((&web["traffic"], &web["trouble"]), (&Value::Null, &json!("it is not connected")));

    let next = |args: &[&str]| {
        let plan = services(&[&["plan", "-o", "json"], args].concat()).is(0);
        let plan: Value = serde_json::from_str(&plan.out).unwrap();
        (plan["next"]["action"].as_str().unwrap().to_owned(), plan)
    };
    let plan = services(&["plan"]).is(0);
    assert!(
        plan.out.contains("Next: set meshServices.mode: Everywhere\n")
            && plan.out.contains("  $ kodiak apply -f mesh.yaml\n"),
        "{}",
        plan.out
    );
    bed.kodiak.file("everywhere.yaml", "type: Mesh\nname: default\nmeshServices: {mode: Everywhere}\n");
    bed.run(&["apply", "-f", "everywhere.yaml"]).is(0);
    assert_eq!(next(&[]).0, "Convert");
    convert(&bed, &["--apply"]).is(0);
    assert_eq!(next(&[]).0, "LookAtPolicies");
    bed.run(&["delete", "meshtimeout", "b-other"]).is(0);
    bed.run(&["delete", "meshtimeout", "c-gone"]).is(0);
    assert_eq!(next(&[]).0, "LookAtRoutes");
    // The traffic of disconnected proxies is unknown.
    let (action, plan) = next(&["--examined", "--watch", "1ms"]);
    assert_eq!((action.as_str(), &plan["back"][0]["title"]), ("Watch", &json!("set meshServices.mode: Disabled")));
    bed.run(&["migrate", "services", "plan", "-m", "none"]).is(1);
}

/// Port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Answers requests one after the other until the test ends.
fn answering() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        }
    });
    port
}

fn start_proxy(bed: &Bed, envoy: &std::path::Path) -> Runner {
    let token = ["generate", "dataplane-token", "--name", "web-1", "--mesh", "default", "--valid-for", "1h"];
    let token = bed.run(&token).is(0).out.trim().to_owned();
    let ca = std::fs::read(bed.kodiak.home.path().join("control-plane/kodiak.crt")).unwrap();
    let proxy = Proxy { mesh: "default".to_owned(), name: "web-1".to_owned(), resource: None };
    let address = format!("https://{}", bed.control_plane.proxies);
    let mut options = Options::new(address, ca, proxy, envoy.to_owned());
    options.token = Some(Token { text: token, file: None });
    options.concurrency = Some(1);
    options.envoy_output = Some(bed.kodiak.home.path().join("envoy.log"));
    options.drain_time = Duration::ZERO;
    bed.runtime.block_on(Runner::start(options)).unwrap()
}

/// Whether it was answered.
fn call(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    let mut answer = String::new();
    let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: api\r\nconnection: close\r\n\r\n");
    let _ = stream.read_to_string(&mut answer);
    answer.starts_with("HTTP/1.1 200")
}

#[test]
fn shows_traffic_of_a_real_envoy_to_legacy_clusters() {
    let Some(envoy) = envoy() else { return };
    let bed = Bed::start();
    let (admin, outbound, api) = (free_port(), free_port(), answering());
    let inbound = |port: u16, service: &str| json!([{ "port": port, "tags": { "kuma.io/service": service, "kuma.io/protocol": "tcp" } }]);
    let calls = json!([{ "port": outbound, "tags": { "kuma.io/service": "api.v1" } }]);
    for (name, networking) in [
        ("api-1", json!({ "address": "127.0.0.1", "inbound": inbound(api, "api.v1") })),
        ("web-1", {
            let inbound = inbound(free_port(), "web");
            json!({ "address": "127.0.0.1", "admin": { "port": admin }, "inbound": inbound, "outbound": calls })
        }),
    ] {
        let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": name, "networking": networking });
        bed.kodiak.file("dataplane.json", &dataplane.to_string());
        bed.run(&["apply", "-f", "dataplane.json"]).is(0);
    }
    let proxy = start_proxy(&bed, envoy);
    let traffic = || {
        let status = bed.run(&["migrate", "services", "status", "-o", "json"]).is(0).out;
        let status: Value = serde_json::from_str(&status).unwrap();
        status["consumers"][1]["traffic"].clone()
    };
    bed.wait_for("a call is answered", || call(outbound));
    bed.wait_for("its insight says that it is there", || traffic().is_object());
    let old = traffic()["old"]["api.v1"].clone();
    assert!(old["connections"].as_u64() >= Some(1), "{old}");
    let table = bed.run(&["migrate", "services", "status"]).is(0).out;
    assert!(table.contains("2 proxies in mesh default (Disabled): 1 called old clusters since they started, 0 did not, 1 did not answer"), "{table}");

    // Without requests during --watch, there is no traffic.
    let watched = bed.run(&["migrate", "services", "status", "--watch", "1ms"]).is(0).out;
    assert!(watched.contains(": 0 called old clusters while they were watched, 1 did not"), "{watched}");
    let ended = bed.runtime.block_on(proxy.stop());
    assert!(ended.success(), "{ended}");
}
