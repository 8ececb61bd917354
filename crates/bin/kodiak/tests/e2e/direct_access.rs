//! Calls to the addresses of instances (`directAccessServices` of a Dataplane).

use std::net::{Ipv4Addr, SocketAddrV4};

use serde_json::json;

use crate::harness::{
    Dataplane, Mesh, Mtls, Setup, User, eventually, expect,
    network::{self, Machine, OTHER_USER, printed, run},
};

const TEST: &str = "direct_access::call_to_an_instance_uses_mtls";
/// Address of the control plane, and of the instance.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const PORT: u16 = 8080;

#[tokio::test(flavor = "multi_thread")]
async fn call_to_an_instance_uses_mtls() {
    if network::is_inside(TEST).await {
        calls_an_instance().await;
    }
}

async fn calls_an_instance() {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"]);
    let setup = Setup { host: HOST, ..Setup::default() };
    let mesh = Mesh::start_with(Mtls::Strict(vec![Mtls::builtin("ca-1")]), setup).await.expect("there is an Envoy");
    network::prepare(&mesh);
    let client = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": "client" } });
    mesh.permit(&json!([{ "targetRef": client, "default": { "action": "Allow" } }])).await;
    let instance = SocketAddrV4::new(HOST, PORT);
    let serving = mesh.serving("backend-1", |service| Dataplane::serving_at("backend", "backend-1", instance, service));
    let (service, _backend) = serving.await;
    let machine = Machine::start(1).await;
    let user = User { machine: Some(machine.network), ..network::proxy_user(mesh.folder()) };
    let dataplane = Dataplane::listening("client", SocketAddrV4::new(machine.address, PORT)).stored();
    let client = mesh.sidecar_of(&user, dataplane, &["--transparent-proxy"]).await;

    // Passes through in plaintext, which the instance refuses.
    let refused = call(&machine, instance);
    assert!(!refused.contains("200 OK"), "{refused}");
    assert_eq!(service.counted(), 0);

    mesh.store(&client.dataplane.clone().calling_directly(&["backend"])).await;
    eventually("the instance is reached by its address", async || {
        let called = call(&machine, instance);
        expect(called.contains("200 OK") && called.ends_with("backend-1"), called)
    })
    .await;

    // The proxy presents the certificate of its client: the instance denies all others.
    mesh.permit(
        &json!([{ "targetRef": { "kind": "MeshService", "name": "other" }, "default": { "action": "Allow" } }]),
    )
    .await;
    eventually("the instance denies the client", async || {
        let called = call(&machine, instance);
        expect(called.contains("403 Forbidden"), called)
    })
    .await;
}

/// Application on another machine: connects, sends a request and reads the response.
fn call(machine: &Machine, to: SocketAddrV4) -> String {
    let request = format!("GET / HTTP/1.1\\r\\nHost: {to}\\r\\nConnection: close\\r\\n\\r\\n");
    let script = format!("exec 3<>/dev/tcp/{}/{} && printf '{request}' >&3 && cat <&3", to.ip(), to.port());
    let user = format!("--reuid={OTHER_USER}");
    let arguments = ["10", "setpriv", &user, "--clear-groups", "bash", "-c", &script];
    printed(&machine.network.command("timeout").args(arguments).output().unwrap())
}
