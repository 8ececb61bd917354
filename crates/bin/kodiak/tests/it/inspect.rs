//! `kodiak inspect` with a whole control plane, and a real Envoy.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use kodiak_cp::{Config, ControlPlane};
use kodiak_dp::run::{Options, Proxy, Runner, Token};
use kodiak_testkit::envoy::envoy;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::Kodiak;

/// Generous timeout, for busy machines.
const PATIENCE: Duration = Duration::from_mins(1);
/// Address that no machine has.
const NOBODYS: &str = "203.0.113.5";

/// Control plane in this process, and the command.
pub(crate) struct Bed {
    pub(crate) kodiak: Kodiak,
    pub(crate) control_plane: ControlPlane,
    pub(crate) runtime: Runtime,
    url: String,
}

impl Bed {
    pub(crate) fn start() -> Self {
        let kodiak = Kodiak::new();
        let local = "127.0.0.1".parse().unwrap();
        let mut config = Config::default();
        config.general.work_dir = kodiak.home.path().join("control-plane");
        config.api_server.http.port = 0;
        config.api_server.https.enabled = false;
        config.diagnostics.interface = local;
        config.diagnostics.server_port = 0;
        config.diagnostics.health_port = 0;
        config.monitoring_assignment_server.port = 0;
        config.dp_server.interface = local;
        config.dp_server.port = 0;
        // The default folder of the command.
        config.api_server.socket.path = kodiak.file(".kodiak/config.d", "").with_file_name("kodiak.sock");
        let runtime = Runtime::new().unwrap();
        let control_plane = runtime.block_on(ControlPlane::start(config)).unwrap();
        let url = format!("http://{}", control_plane.http.unwrap());
        let bed = Self { kodiak, control_plane, runtime, url };
        let is_there = |kind: &str, name: &str| bed.run(&["get", kind, name]).code == 0;
        bed.wait_for("the defaults", || is_there("mesh", "default") && is_there("globalsecret", "envoy-admin-ca"));
        bed
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn run(&self, args: &[&str]) -> crate::Ran {
        self.kodiak.run(&[&["--cp", &self.url], args].concat())
    }

    fn inspect(&self, args: &[&str]) -> String {
        self.run(&[&["inspect", "dataplane", "web-1"], args].concat()).is(0).out
    }

    pub(crate) fn wait_for(&self, what: &str, mut look: impl FnMut() -> bool) {
        let started = Instant::now();
        while !look() {
            if started.elapsed() > PATIENCE {
                let envoy = std::fs::read_to_string(self.kodiak.home.path().join("envoy.log")).unwrap_or_default();
                panic!("not after {PATIENCE:?}: {what}: {:?}\n{envoy}", self.run(&["inspect", "dataplane", "web-1"]));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn status(&self) -> Value {
        let summary: Value = serde_json::from_str(&self.inspect(&["-o", "json"])).unwrap();
        summary["status"].clone()
    }

    fn apply_dataplane(&self, admin_port: u16, outbound: &Value) {
        let networking = json!({
            "address": "127.0.0.1", "admin": { "port": admin_port },
            "inbound": [{ "port": free_port(), "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } }],
            "outbound": outbound,
        });
        let dataplane = json!({ "type": "Dataplane", "mesh": "default", "name": "web-1", "networking": networking });
        self.kodiak.file("web.json", &dataplane.to_string());
        self.run(&["apply", "-f", "web.json"]).is(0);
    }

    fn start_proxy(&self, envoy: &std::path::Path, token: &str) -> Runner {
        let address = format!("https://{}", self.control_plane.proxies);
        let ca = std::fs::read(self.kodiak.home.path().join("control-plane/kodiak.crt")).unwrap();
        let proxy = Proxy { mesh: "default".to_owned(), name: "web-1".to_owned(), resource: None };
        let mut options = Options::new(address, ca, proxy, envoy.to_owned());
        options.token = Some(Token { text: token.to_owned(), file: None });
        options.concurrency = Some(1);
        options.envoy_output = Some(self.kodiak.home.path().join("envoy.log"));
        options.drain_time = Duration::ZERO;
        self.runtime.block_on(Runner::start(options)).unwrap()
    }
}

/// Port that was free just now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Number of ACKs or NACKs of a type.
fn count(status: &Value, of: &str, field: &str) -> u64 {
    let types = status["types"].as_array().into_iter().flatten();
    types.filter(|one| one["type"] == of).filter_map(|one| one[field].as_u64()).sum()
}

#[test]
fn inspects_a_real_envoy() {
    let Some(envoy) = envoy() else { return };
    let bed = Bed::start();
    let mtls = "type: Mesh\nname: default\nmtls:\n  enabledBackend: ca\n  backends:\n  - {name: ca, type: builtin}\n";
    bed.kodiak.file("mesh.yaml", mtls);
    bed.run(&["apply", "-f", "mesh.yaml"]).is(0);
    bed.apply_dataplane(free_port(), &json!([]));
    let never = bed.run(&["inspect", "dataplane", "web-1", "--type", "clusters"]).is(1);
    assert!(never.err.contains("was never connected"), "{}", never.err);
    let token = ["generate", "dataplane-token", "--name", "web-1", "--mesh", "default", "--valid-for", "1h"];
    let token = bed.run(&token).is(0).out;
    let proxy = bed.start_proxy(envoy, token.trim());
    bed.wait_for("all is acknowledged", || {
        let status = bed.status();
        count(&status, "lds", "acknowledged") > 0 && status["published"] == status["settled"]
    });
    // Its insight is written later, in a batch.
    bed.wait_for("it is online", || bed.inspect(&[]).contains("Online since"));

    // Status and configuration of the control plane.
    let summary = bed.inspect(&[]);
    for part in ["Status:        Online since ", "/1.40.0\n", "Certificate:   from ca, until ", "answered in full"] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(!summary.contains("rejected lds"), "{summary}");
    let config = bed.inspect(&["--type", "config"]);
    assert!(config.starts_with("xds:\n") && config.contains("identity_cert:secret:default"), "{config}");
    assert!(config.contains("[redacted]") && !config.contains("[placeholder]"), "{config}");

    // Envoy's own views, through the admin listener, which requires the certificate of a control plane.
    assert!(bed.inspect(&["--type", "clusters"]).contains("kuma:envoy:admin::"));
    let clusters: Value = serde_json::from_str(&bed.inspect(&["--type", "clusters", "-o", "json"])).unwrap();
    assert!(clusters["cluster_statuses"].as_array().is_some_and(|all| !all.is_empty()), "{clusters}");
    assert!(bed.inspect(&["--type", "stats"]).contains("listener_manager.lds.update_success: "));
    let stats: Value = serde_json::from_str(&bed.inspect(&["--type", "stats", "-o", "json"])).unwrap();
    assert!(stats["stats"].is_array(), "{stats}");
    let dump = bed.inspect(&["--type", "config-dump", "--include-eds", "-o", "json"]);
    assert!(dump.contains("BootstrapConfigDump") && dump.contains("inbound:127.0.0.1:"), "{dump}");
    assert!(dump.contains("authorization"), "the bootstrap has a token to hide: {dump}");
    assert!(!dump.contains(token.trim()), "{dump}");
    // `-----BEGIN PRIVATE KEY`, as bytes are written.
    for key in ["LS0tLS1CRUdJTiBQUklWQVRFIEtFWS", "LS0tLS1CRUdJTiBFQyBQUklWQVRF", "LS0tLS1CRUdJTiBSU0EgUFJJVkFURS"] {
        assert!(!dump.contains(key) && !config.contains(key));
    }
    let ended = bed.runtime.block_on(proxy.stop());
    assert!(ended.success(), "{ended}");
}

#[test]
fn shows_the_error_of_envoy_for_a_nack() {
    let Some(envoy) = envoy() else { return };
    let bed = Bed::start();
    let outbound = json!([{ "address": NOBODYS, "port": 10_000, "tags": { "kuma.io/service": "backend" } }]);
    bed.apply_dataplane(free_port(), &outbound);
    let token = ["generate", "dataplane-token", "--name", "web-1", "--mesh", "default", "--valid-for", "1h"];
    let token = bed.run(&token).is(0).out;
    let proxy = bed.start_proxy(envoy, token.trim());
    bed.wait_for("it rejects listeners", || count(&bed.status(), "lds", "rejected") > 0);
    let summary = bed.inspect(&[]);
    assert!(summary.contains("The proxy rejected lds. It stays on its last good configuration:\n  "), "{summary}");
    assert!(summary.contains(&format!("{NOBODYS}:10000")), "{summary}");
    bed.wait_for("the insight says so too", || bed.run(&["get", "dataplanes"]).is(0).out.contains("NACKED 1 (lds)"));
    // Envoy accepts the other listeners, so that its admin listener works.
    assert!(bed.inspect(&["--type", "stats"]).contains("listener_manager.lds.update_rejected: 1"));
    let ended = bed.runtime.block_on(proxy.stop());
    assert!(ended.success(), "{ended}");
}
