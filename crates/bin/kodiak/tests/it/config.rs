//! config, and TLS.

use crate::Kodiak;
use crate::server::Server;

#[test]
fn adds_lists_switches_and_removes_control_planes() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let file = kodiak.home.path().join(".kodiak/config");
    let list = || kodiak.run(&["config", "control-planes", "list"]).is(0).out;
    assert_eq!(list(), "ACTIVE   NAME    ADDRESS\n*        local   http://localhost:5681\n");
    assert!(!file.exists(), "looking writes nothing");
    let url = server.url();
    let add = ["config", "control-planes", "add", "--name", "here", "--address", &url];
    kodiak.run(&add).is(0);
    assert!(kodiak.run(&add).is(2).err.contains("--overwrite"));
    kodiak.run(&[&add[..], &["--overwrite"]].concat()).is(0);
    assert!(list().contains(&format!("*        here    {url}")), "{}", list());
    kodiak.run(&["get", "zones"]).is(0);
    kodiak.run(&["config", "control-planes", "switch", "--name", "local"]).is(0);
    assert!(list().contains("*        local"));
    assert!(
        kodiak
            .run(&["config", "control-planes", "switch", "--name", "her"])
            .is(2)
            .err
            .contains("did you mean \"here\"?")
    );
    kodiak.run(&["--context", "here", "get", "zones"]).is(0);
    kodiak.run(&["-c", "nowhere", "get", "zones"]).is(2);
    kodiak.run(&["config", "control-planes", "remove", "--name", "local"]).is(0);
    assert!(kodiak.run(&["get", "zones"]).is(2).err.contains("no control plane is selected"));
}

#[test]
fn rejects_addresses_of_other_servers() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    server.with(|state| state.product = Some("Nginx".to_owned()));
    let url = server.url();
    let add = ["config", "control-planes", "add", "--name", "x", "--address", &url];
    assert!(kodiak.run(&add).is(1).err.contains("is \"Nginx\", not a control plane"));
    kodiak.run(&[&add[..], &["--skip-check"]].concat()).is(0);
    server.with(|state| state.product = Some("Kuma".to_owned()));
    kodiak.run(&[&add[..], &["--overwrite"]].concat()).is(0);
    kodiak.run(&["config", "control-planes", "add", "--name", "y", "--address", "localhost:5681"]).is(2);
}

#[test]
fn masks_secrets() {
    let kodiak = Kodiak::new();
    let add = "config control-planes add --name x --address https://cp.example.com --skip-check --auth-type tokens --auth-conf token=hush --header x-key=hush";
    kodiak.run(&add.split(' ').collect::<Vec<_>>()).is(0);
    let view = kodiak.run(&["config", "view"]).is(0).out;
    assert!(!view.contains("hush") && view.contains("***"), "{view}");
    assert!(kodiak.run(&["config", "view", "--show-secrets"]).is(0).out.contains("token: hush"));
    let plain = add.replace("https", "http").replace("--name x", "--name y");
    assert!(kodiak.run(&plain.split(' ').collect::<Vec<_>>()).is(0).err.contains("without encryption"));
}

#[test]
fn verifies_certificates() {
    let kodiak = Kodiak::new();
    let (server, certificate) = Server::start_tls();
    let url = format!("https://localhost:{}", server.port);
    let refused = kodiak.run(&["--cp", &url, "get", "zones"]).is(3);
    assert!(refused.err.contains("certificate") && refused.err.contains("--ca-cert-file"), "{}", refused.err);
    kodiak.file("ca.pem", &certificate);
    let add = ["config", "control-planes", "add", "--name", "tls", "--address", &url, "--ca-cert-file", "ca.pem"];
    kodiak.run(&add).is(0);
    kodiak.run(&["get", "zones"]).is(0);
    // The CA of a configured address is used with --cp, too.
    kodiak.run(&["--cp", &url, "get", "zones"]).is(0);
    kodiak.file("ca.pem", "not a certificate");
    assert!(kodiak.run(&["get", "zones"]).is(2).err.contains("holds no certificates"));
    let plain = Server::start();
    let not_tls = kodiak.run(&["--cp", &format!("https://localhost:{}", plain.port), "get", "zones"]).is(3);
    assert!(not_tls.err.contains("Does it speak HTTPS?"), "{}", not_tls.err);
}

#[test]
fn rejects_skip_verify() {
    let kodiak = Kodiak::new();
    let text = "contexts: [{name: a, controlPlane: a}]\ncontrolPlanes: [{name: a, coordinates: {apiServer: {url: 'https://cp', skipVerify: true}}}]\ncurrentContext: a\n";
    let file = kodiak.file("kumactl", text);
    let ran = kodiak.run(&["--config-file", file.to_str().unwrap(), "get", "zones"]).is(2);
    assert!(ran.err.contains("skipVerify") && ran.err.contains("--ca-cert-file"), "{}", ran.err);
}

#[test]
fn uses_the_mesh_of_the_context() {
    let (kodiak, server) = (Kodiak::new(), Server::start());
    let text = format!(
        "contexts: [{{name: a, controlPlane: a, defaults: {{mesh: payments}}}}]\ncontrolPlanes: [{{name: a, coordinates: {{apiServer: {{url: '{}'}}}}}}]\ncurrentContext: a\n",
        server.url()
    );
    kodiak.file(".kodiak/config", &text);
    kodiak.run(&["get", "meshtimeout", "x"]).is(1);
    assert_eq!(server.requests(), ["GET /meshes/payments/meshtimeouts/x"]);
}
