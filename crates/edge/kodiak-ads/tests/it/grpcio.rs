//! gRPC's own xDS client gets routes, clusters and endpoints from our port and makes calls.

mod python;

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;

use kodiak_ads::Protocol;
use kodiak_envoy::envoy::config::cluster::v3::Cluster;
use kodiak_envoy::envoy::config::endpoint::v3::ClusterLoadAssignment;
use kodiak_envoy::envoy::config::listener::v3::Listener;
use kodiak_envoy::envoy::config::route::v3::RouteConfiguration;
use kodiak_envoy::json::from_json;
use kodiak_xds_stream::{Encoded, TypeUrl};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::bed::{Bed, PATIENCE};
use crate::resources::encode;

/// The script, which ends with its test.
struct Script {
    _child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Script {
    fn start(python: &Path, bed: &Bed, folder: &Path) -> Self {
        let ca = folder.join("ca.pem");
        fs::write(&ca, &bed.ca_pem).unwrap();
        let credentials = json!({ "type": "tls", "config": { "ca_certificate_file": ca } });
        let server = json!({
            "server_uri": bed.address.to_string(),
            "channel_creds": [credentials],
            "server_features": ["xds_v3"],
        });
        let bootstrap = json!({ "xds_servers": [server], "node": { "id": "default.web-1" } });
        let mut command = Command::new(python);
        command.args(["-c", include_str!("grpcio/client.py")]).env("GRPC_XDS_BOOTSTRAP_CONFIG", bootstrap.to_string());
        // An HTTP proxy of the user would be used for our address.
        command.env("no_proxy", "127.0.0.1").kill_on_drop(true);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { _child: child, input, output: BufReader::new(output).lines() }
    }

    async fn line(&mut self) -> String {
        let line = tokio::time::timeout(PATIENCE, self.output.next_line()).await.expect("the script goes on");
        line.unwrap().expect("the script goes on")
    }

    /// The server that answered.
    async fn call(&mut self) -> String {
        self.input.write_all(b"\n").await.unwrap();
        self.line().await
    }
}

fn snapshot(port: u16) -> [(TypeUrl, Arc<Encoded>); 4] {
    fn read<M: prost::Message + prost::Name + Default>(json: &Value) -> M {
        from_json(json).unwrap()
    }
    let ads = || json!({ "ads": {}, "resourceApiVersion": "V3" });
    let last = json!({ "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router" });
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "httpFilters": [{ "name": "router", "typedConfig": last }],
        "rds": { "routeConfigName": "routes", "configSource": ads() },
    });
    let listener = json!({ "name": "demo", "apiListener": { "apiListener": manager } });
    let route = json!({ "match": { "prefix": "" }, "route": { "cluster": "backend" } });
    let host = json!({ "name": "all", "domains": ["*"], "routes": [route] });
    let routes = json!({ "name": "routes", "virtualHosts": [host] });
    let cluster = json!({ "name": "backend", "type": "EDS", "edsClusterConfig": { "edsConfig": ads() } });
    let address = json!({ "socketAddress": { "address": "127.0.0.1", "portValue": port } });
    let locality = json!({
        "locality": { "zone": "here" },
        "loadBalancingWeight": 1,
        "lbEndpoints": [{ "endpoint": { "address": address } }],
    });
    let assignment = json!({ "clusterName": "backend", "endpoints": [locality] });
    [
        (TypeUrl::Listener, encode("demo", &read::<Listener>(&listener), &[])),
        (TypeUrl::Route, encode("routes", &read::<RouteConfiguration>(&routes), &[])),
        (TypeUrl::Cluster, encode("backend", &read::<Cluster>(&cluster), &[])),
        (TypeUrl::Endpoint, encode("backend", &read::<ClusterLoadAssignment>(&assignment), &[])),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sotw_serves_the_grpc_xds_client() {
    let Some(python) = tokio::task::spawn_blocking(python::python).await.unwrap() else { return };
    let bed = Bed::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut script = Script::start(&python, &bed, folder.path());
    let ports = script.line().await;
    let ports: Vec<u16> = ports.split_whitespace().map(|port| port.parse().unwrap()).collect();

    bed.snapshot(1, &snapshot(ports[0]));
    assert_eq!(script.call().await, "one");
    let types = [TypeUrl::Listener, TypeUrl::Route, TypeUrl::Cluster, TypeUrl::Endpoint];
    let seen = bed
        .wait_for("all types are acknowledged", |seen| types.iter().all(|each| seen.of(*each).acknowledged > 0))
        .await;
    assert!(types.iter().all(|each| seen.of(*each).rejected == 0), "{seen:?}");
    assert_eq!(seen.hellos[0].protocol, Protocol::StateOfTheWorld);

    bed.snapshot(2, &snapshot(ports[1]));
    bed.wait_for("the change is acknowledged", |seen| seen.settled == Some(2)).await;
    let moved = async {
        while script.call().await != "other" {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, moved).await.expect("calls move with the endpoint");
    assert_eq!(bed.seen().ended, 0);
}
