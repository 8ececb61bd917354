//! A real Prometheus, which scrapes the proxies that a control plane assigns to it.
//!
//! Debian's Prometheus is built without `kuma_sd_configs`. So the harness discovers in its place: it sends the requests of
//! that client, and passes the targets to Prometheus in a file, with the labels that the client would give them.

use std::{
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process::Command,
};

use hyper::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::{ControlPlane, PAUSE, Process, addresses, get, http};

const TYPE_URL: &str = "type.googleapis.com/kuma.observability.v1.MonitoringAssignment";

pub(crate) struct Prometheus {
    pub(crate) process: Process,
    address: SocketAddr,
    _discovery: JoinSet<()>,
}

impl Prometheus {
    /// `more` are further lines of its scrape configuration. `None`, with a message, where it is not installed.
    pub(crate) fn start(control_plane: &ControlPlane, folder: &Path, more: &str) -> Option<Self> {
        let program = kodiak_testkit::prometheus::prometheus()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, addresses::port(Ipv4Addr::LOCALHOST)));
        let (file, targets) = (folder.join("prometheus.yaml"), folder.join("targets.json"));
        fs::write(&targets, "[]").unwrap();
        let config = format!(
            "
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
- job_name: proxies
  file_sd_configs: [{{files: ['{}'], refresh_interval: 1s}}]
  relabel_configs:
  - {{source_labels: [__meta_kuma_mesh], target_label: mesh}}
  - {{source_labels: [__meta_kuma_dataplane], target_label: dataplane}}
  - {{source_labels: [__meta_kuma_service], target_label: service}}
  - {{action: labelmap, regex: __meta_kuma_label_(.+)}}
{more}",
            targets.display()
        );
        fs::write(&file, config).unwrap();
        let mut command = Command::new(program);
        command.arg("--config.file").arg(file).arg("--storage.tsdb.path").arg(folder.join("prometheus"));
        command.args(["--log.level", "warn", "--web.listen-address", &address.to_string()]);
        let process = Process::start(&mut command);
        let mut discovery = JoinSet::new();
        discovery.spawn(discover(control_plane.monitoring(), targets));
        Some(Self { process, address, _discovery: discovery })
    }

    /// Series of a query now: labels, and value.
    pub(crate) async fn query(&self, query: &str) -> Result<Vec<(Value, String)>, String> {
        let mut escaped = String::new();
        for byte in query.bytes() {
            write!(escaped, "%{byte:02x}").unwrap();
        }
        let answer = get(self.address, &format!("/api/v1/query?query={escaped}")).await?;
        if !answer.status.is_success() {
            return Err(format!("{answer:?}"));
        }
        let json = answer.json();
        let series = json["data"]["result"].as_array().cloned().unwrap_or_default();
        let value = |series: &Value| series["value"][1].as_str().unwrap_or_default().to_owned();
        Ok(series.iter().map(|series| (series["metric"].clone(), value(series))).collect())
    }
}

/// Writes the targets whenever they change.
async fn discover(server: SocketAddr, file: PathBuf) {
    let (mut version, mut nonce) = (String::new(), String::new());
    loop {
        let request = json!({
            "version_info": version, "node": { "id": "prometheus" }, "resource_names": [],
            "type_url": TYPE_URL, "response_nonce": nonce,
        });
        let path = "/v3/discovery:monitoringassignments?fetch-timeout=5s";
        let answer = match http::send(server, Method::POST, path, request.to_string()).await {
            Ok(answer) if answer.status == StatusCode::OK => answer.json(),
            Ok(answer) => {
                assert_eq!(answer.status, StatusCode::NOT_MODIFIED, "{answer:?}");
                continue;
            }
            Err(_) => {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let text = |field: &Value| field.as_str().unwrap().to_owned();
        (version, nonce) = (text(&answer["version_info"]), text(&answer["nonce"]));
        let targets: Vec<_> = answer["resources"].as_array().unwrap().iter().flat_map(targets).collect();
        let written = file.with_extension("new");
        fs::write(&written, Value::from(targets).to_string()).unwrap();
        fs::rename(written, &file).unwrap();
    }
}

/// Targets of an assignment, as Prometheus reads them from a file.
fn targets(assignment: &Value) -> Vec<Value> {
    assert_eq!(assignment["@type"], TYPE_URL);
    let common = labels(&assignment["labels"]);
    let targets = assignment["targets"].as_array().unwrap().iter();
    let target = |target: &Value| {
        let mut all = labels(&target["labels"]);
        all.extend(common.clone());
        for (label, value) in [
            ("__meta_kuma_mesh", &assignment["mesh"]),
            ("__meta_kuma_service", &assignment["service"]),
            ("__meta_kuma_dataplane", &target["name"]),
            ("instance", &target["name"]),
            ("__scheme__", &target["scheme"]),
            ("__metrics_path__", &target["metrics_path"]),
        ] {
            all.insert(label.to_owned(), value.clone());
        }
        json!({ "targets": [target["address"]], "labels": all })
    };
    targets.map(target).collect()
}

fn labels(written: &Value) -> Map<String, Value> {
    let valid = |key: &str| key.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    let labels = written.as_object().unwrap().iter();
    labels.map(|(key, value)| (format!("__meta_kuma_label_{}", valid(key)), value.clone())).collect()
}
