//! A client that knows nothing of the mesh calls a service by its name, and goes through both proxies.
//!
//! The test starts itself once more in network and mount namespaces of its own, which go with that process.

use std::{
    env, fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Output},
};

use kodiak_testkit::envoy::envoy;
use serde_json::json;

use crate::harness::{Dataplane, Mesh, Mtls, User, eventually, expect};

const TEST: &str = "transparent::an_unmodified_client_reaches_a_service_by_its_name";
const INSIDE: &str = "KODIAK_TEST_INSIDE_A_NETWORK";
/// Who runs the proxy. Needs no entry anywhere.
const PROXY_USER: &str = "5678";
/// Who calls.
const OTHER_USER: &str = "65534";
/// The address of the machine.
const MACHINE: &str = "10.9.9.1";
const RULES: [&str; 2] = ["install", "uninstall"];

#[tokio::test(flavor = "multi_thread")]
async fn an_unmodified_client_reaches_a_service_by_its_name() {
    if env::var_os(INSIDE).is_some() {
        return reaches().await;
    }
    if envoy().is_none() {
        return;
    }
    if let Some(missing) = missing() {
        // Past the test harness, which hides what a test prints that passes.
        writeln!(io::stderr(), "SKIPPED, NOT TESTED: {TEST}: {missing}").expect("standard error is open");
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--net", "--mount"]).arg(env::current_exe().unwrap());
    command.args(["--exact", TEST, "--nocapture"]).env(INSIDE, "1");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(output.status.success() && printed(&output).contains("1 passed"), "{}", printed(&output));
}

fn missing() -> Option<String> {
    let works = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
    };
    if !works("unshare", &["--net", "--mount", "true"]) {
        return Some("this process may not make namespaces; run it as root".to_owned());
    }
    if !works("nft", &["--version"]) && !works("iptables", &["--version"]) {
        return Some("neither nft nor iptables is there".to_owned());
    }
    let tools = [("ip", "-V"), ("setpriv", "-V"), ("mount", "-V"), ("bash", "--version")];
    let tool = tools.iter().find(|(tool, version)| !works(tool, &[version]));
    tool.map(|(tool, _)| format!("{tool} is not there"))
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
    fs::set_permissions(mesh.folder(), fs::Permissions::from_mode(0o755)).unwrap();
    let resolv_conf = mesh.folder().join("resolv.conf");
    fs::write(&resolv_conf, "nameserver 10.9.9.53\noptions timeout:1 attempts:1\n").unwrap();
    run("mount", &["--bind", resolv_conf.to_str().unwrap(), "/etc/resolv.conf"]);
    let from = json!([{ "targetRef": { "kind": "MeshSubset", "tags": { "kuma.io/service": "client" } },
                        "default": { "action": "Allow" } }]);
    mesh.permit(&from).await;
    let (service, backend) = mesh.backend("backend-1").await;
    // For a user who may not look into the folders where these are.
    let user = User {
        number: PROXY_USER,
        kodiak: visible(env!("CARGO_BIN_EXE_kodiak").as_ref(), &mesh.folder().join("kodiak")),
        envoy: visible(envoy().expect("it was there"), &mesh.folder().join("envoy")),
    };
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

/// The program under a path that everybody may read.
fn visible(program: &Path, path: &Path) -> std::path::PathBuf {
    fs::write(path, "").unwrap();
    run("mount", &["--bind", program.to_str().unwrap(), path.to_str().unwrap()]);
    path.to_owned()
}

/// What an application does: it looks up the name, connects, asks and reads. Ends where nobody answers.
fn call(host: &str) -> String {
    let request = format!("GET / HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n");
    let script = format!("exec 3<>/dev/tcp/{host}/80 && printf '{request}' >&3 && cat <&3");
    let user = format!("--reuid={OTHER_USER}");
    let arguments = ["10", "setpriv", &user, "--clear-groups", "bash", "-c", &script];
    printed(&Command::new("timeout").args(arguments).output().unwrap())
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", printed(&output));
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stderr.as_slice(), output.stdout.as_slice()].concat()).into_owned()
}
