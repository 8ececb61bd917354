//! A real SPIRE serves certificates, also to a real Envoy over SDS.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use kodiak_testkit::envoy::envoy;
use kodiak_testkit::spire::Spire;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);
const ID: &str = "spiffe://spire.test/web";
/// Name of the cluster with the agent's socket.
const AGENT: &str = "spire_agent";

#[test]
fn agent_serves_the_certificate_of_a_registered_identity() {
    let Some(spire) = Spire::start("spire.test") else { return };
    let error = spire.identities().unwrap_err().to_string();
    assert!(error.contains("no identity issued"), "{error}");
    spire.register(ID, 60).unwrap();
    assert_eq!(spire.identities().unwrap(), [ID]);
    let bundle = spire.trust_bundle().unwrap();
    assert!(bundle.starts_with("-----BEGIN CERTIFICATE-----"), "{bundle}");
}

#[test]
fn spire_leaves_nothing_behind() {
    let Some(spire) = Spire::start("spire.test") else { return };
    let folder = spire.agent_socket().parent().unwrap().to_owned();
    assert!(folder.exists());
    drop(spire);
    assert!(!folder.exists(), "{}", folder.display());
}

#[test]
fn envoy_gets_certificate_and_trust_bundle_from_the_agent() {
    let (Some(program), Some(spire)) = (envoy(), Spire::start("spire.test")) else { return };
    spire.register(ID, 60).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let _envoy = RunningEnvoy::start(program, folder.path(), &bootstrap(folder.path(), spire.agent_socket()));
    let started = Instant::now();
    let peer = format!("peer: {ID}\r\n");
    loop {
        let answer = get(&folder.path().join("client.sock")).unwrap_or_default();
        if answer.contains(&peer) {
            return;
        }
        let log = || fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        assert!(started.elapsed() < PATIENCE, "no answer over mutual TLS: {answer}\n{}", log());
        thread::sleep(Duration::from_millis(20));
    }
}

/// Killed on drop.
struct RunningEnvoy(Child);

impl RunningEnvoy {
    fn start(program: &Path, folder: &Path, bootstrap: &Value) -> Self {
        let file = folder.join("bootstrap.json");
        fs::write(&file, bootstrap.to_string()).unwrap();
        let mut command = Command::new(program);
        command.args(["--disable-hot-restart", "--concurrency", "1", "-c"]).arg(&file);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(fs::File::create(folder.join("log")).unwrap());
        Self(command.spawn().unwrap())
    }
}

impl Drop for RunningEnvoy {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// `client.sock` forwards to `server.sock` over mutual TLS, which answers with the identity of its peer.
fn bootstrap(folder: &Path, agent: &Path) -> Value {
    let network = |name: &str| format!("type.googleapis.com/envoy.extensions.filters.network.{name}");
    let peer = json!({ "header": { "key": "peer", "value": "%DOWNSTREAM_PEER_URI_SAN%" } });
    let route =
        json!({ "match": { "prefix": "/" }, "directResponse": { "status": 200 }, "responseHeadersToAdd": [peer] });
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let http = json!({
        "@type": network("http_connection_manager.v3.HttpConnectionManager"),
        "statPrefix": "server",
        "routeConfig": { "virtualHosts": [{ "name": "all", "domains": ["*"], "routes": [route] }] },
        "httpFilters": [{ "name": "router", "typedConfig": { "@type": router } }],
    });
    let tcp = json!({ "@type": network("tcp_proxy.v3.TcpProxy"), "statPrefix": "client", "cluster": "server" });
    let chain = |filter: Value| json!({ "filters": [{ "name": "filter", "typedConfig": filter }] });
    let mut tls_chain = chain(http);
    tls_chain["transportSocket"] = tls("Downstream", "ALL");
    tls_chain["transportSocket"]["typedConfig"]["requireClientCertificate"] = json!(true);
    let mut server = cluster("server", &folder.join("server.sock"));
    server["transportSocket"] = tls("Upstream", "ROOTCA");
    let mut agent = cluster(AGENT, agent);
    agent["typedExtensionProtocolOptions"]["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"] = json!({
        "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicitHttpConfig": { "http2ProtocolOptions": {} },
    });
    let listeners = json!([
        { "name": "server", "address": pipe(&folder.join("server.sock")), "filterChains": [tls_chain] },
        { "name": "client", "address": pipe(&folder.join("client.sock")), "filterChains": [chain(tcp)] },
    ]);
    json!({
        "node": { "id": "web-1", "cluster": "web" },
        "staticResources": { "listeners": listeners, "clusters": [server, agent] },
    })
}

/// With the certificate of [`ID`], and with the agent's validation context of this name. Both need a SAN of the mesh.
fn tls(side: &str, validation_context: &str) -> Value {
    let secret = |name: &str| {
        let service = json!({ "envoyGrpc": { "clusterName": AGENT } });
        let source = json!({ "apiType": "GRPC", "transportApiVersion": "V3", "grpcServices": [service] });
        json!({ "name": name, "sdsConfig": { "resourceApiVersion": "V3", "apiConfigSource": source } })
    };
    let san = json!({ "sanType": "URI", "matcher": { "exact": ID } });
    let context = json!({
        "tlsCertificateSdsSecretConfigs": [secret(ID)],
        "combinedValidationContext": {
            "defaultValidationContext": { "matchTypedSubjectAltNames": [san] },
            "validationContextSdsSecretConfig": secret(validation_context),
        },
    });
    let name = format!("type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.{side}TlsContext");
    json!({ "name": "tls", "typedConfig": { "@type": name, "commonTlsContext": context } })
}

fn cluster(name: &str, socket: &Path) -> Value {
    let endpoint = json!({ "endpoint": { "address": pipe(socket) } });
    let assignment = json!({ "clusterName": name, "endpoints": [{ "lbEndpoints": [endpoint] }] });
    json!({ "name": name, "type": "STATIC", "connectTimeout": "5s", "loadAssignment": assignment })
}

fn pipe(path: &Path) -> Value {
    json!({ "pipe": { "path": path } })
}

/// The whole answer; fails while nothing listens.
fn get(socket: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: web\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
