//! An unmodified client calls a service by hostname, through both proxies.

use std::process::Command;

use serde_json::json;

use crate::harness::{
    Dataplane, Mesh, Mtls, eventually, expect,
    network::{self, OTHER_USER, PROXY_USER, printed, run},
};

const TEST: &str = "transparent::unmodified_client_calls_a_service_by_hostname";
/// The address of the machine.
const MACHINE: &str = "10.9.9.1";
const RULES: [&str; 2] = ["install", "uninstall"];

#[tokio::test(flavor = "multi_thread")]
async fn unmodified_client_calls_a_service_by_hostname() {
    if network::is_inside(TEST).await {
        reaches().await;
    }
}

async fn reaches() {
    run("ip", &["link", "set", "lo", "up"]);
    // A way out, at whose end nobody is.
    run("ip", &["link", "add", "out", "type", "veth", "peer", "name", "end"]);
    run("ip", &["address", "add", &format!("{MACHINE}/24"), "dev", "out"]);
    run("ip", &["link", "set", "out", "up"]);
    run("ip", &["link", "set", "end", "up"]);
    run("ip", &["route", "add", "default", "dev", "out"]);

    let mesh = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await.expect("there is an Envoy");
    network::prepare(&mesh);
    let from = json!([{ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": "client" } },
                        "default": { "action": "Allow" } }]);
    mesh.permit(&from).await;
    let (service, backend) = mesh.backend("backend-1").await;
    let user = network::proxy_user(mesh.folder());
    let [install, uninstall] = RULES.map(|what| [what, "transparent-proxy"]);
    let redirect = ["--kodiak-dp-user", PROXY_USER, "--redirect-dns"];
    run(env!("CARGO_BIN_EXE_kodiak"), &[&install[..], &redirect[..]].concat());
    let client = Dataplane::at("client", MACHINE.parse().unwrap());
    let client = mesh.sidecar_of(&user, client, &["--transparent-proxy"]).await;

    eventually("the service is reached by its name", async || {
        let called = call("backend.mesh");
        expect(called.contains("200 OK") && called.ends_with("backend-1"), called)
    })
    .await;
    assert!(service.counted() > 0);
    let requests = client.stats("http.*downstream_rq_2xx").await;
    assert!(requests.iter().any(|line| !line.ends_with(": 0")), "through the proxy of the caller: {requests:?}");
    let handshakes = backend.stats(&format!("listener.*_{}.ssl.handshake", backend.dataplane.inbound().port())).await;
    assert!(handshakes.iter().any(|line| !line.ends_with(": 0")), "with mTLS: {handshakes:?}");
    let unknown = call("nobody.mesh");
    assert!(!unknown.contains("200 OK"), "{unknown}");

    run(env!("CARGO_BIN_EXE_kodiak"), &uninstall);
    let after = call("backend.mesh");
    assert!(!after.contains("200 OK"), "the rules are gone: {after}");
}

/// Application: resolves the name, connects, sends a request and reads the response.
fn call(host: &str) -> String {
    let request = format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n");
    let script = format!("exec 3<>/dev/tcp/{host}/80 && printf '{request}' >&3 && cat <&3");
    let user = format!("--reuid={OTHER_USER}");
    let arguments = ["10", "setpriv", &user, "--clear-groups", "bash", "-c", &script];
    printed(&Command::new("timeout").args(arguments).output().unwrap())
}
