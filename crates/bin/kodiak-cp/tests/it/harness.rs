//! Control plane under test, and a client over TCP.

use std::{net::SocketAddr, path::Path};

use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, StatusCode, body::Bytes, header};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use kodiak_cp::{Config, ControlPlane, Faults};
use serde_json::Value;
use tempfile::TempDir;

/// Control plane with the file store, in its own folder.
pub(crate) struct TestControlPlane {
    pub(crate) control_plane: ControlPlane,
    folder: Option<TempDir>,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
}

impl Answer {
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Invalid parameters, each with its field and reason.
    #[track_caller]
    pub(crate) fn problems(&self) -> Vec<String> {
        let body = self.json();
        let list = body["invalid_parameters"].as_array().cloned().unwrap_or_default();
        list.iter().map(|p| format!("{}: {}", p["field"].as_str().unwrap(), p["reason"].as_str().unwrap())).collect()
    }
}

/// Default configuration, with ports that the system chooses.
pub(crate) fn config(folder: &Path) -> Config {
    let mut config = Config::default();
    folder.clone_into(&mut config.general.work_dir);
    config.api_server.http.port = 0;
    config.api_server.https.port = 0;
    config.api_server.https.interface = "127.0.0.1".parse().unwrap();
    config.diagnostics.interface = "127.0.0.1".parse().unwrap();
    config.diagnostics.server_port = 0;
    config.diagnostics.health_port = 0;
    config.monitoring_assignment_server.port = 0;
    config.dp_server.interface = "127.0.0.1".parse().unwrap();
    config.dp_server.port = 0;
    config
}

impl TestControlPlane {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        Self::started(folder, config, Faults::default()).await
    }

    pub(crate) async fn start_with_faults(faults: Faults) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        Self::started(folder, config, faults).await
    }

    /// Restarts on the same folder.
    pub(crate) async fn restart(self) -> Self {
        self.restart_as(|_| (), Faults::default()).await
    }

    pub(crate) async fn restart_with(self, change: impl FnOnce(&mut Config)) -> Self {
        self.restart_as(change, Faults::default()).await
    }

    pub(crate) async fn restart_with_faults(self, faults: Faults) -> Self {
        self.restart_as(|_| (), faults).await
    }

    async fn restart_as(self, change: impl FnOnce(&mut Config), faults: Faults) -> Self {
        let Self { control_plane, folder } = self;
        control_plane.stop().await.unwrap();
        let folder = folder.unwrap();
        let mut config = config(folder.path());
        change(&mut config);
        Self::started(folder, config, faults).await
    }

    /// Its ports are open, and nothing else is done yet.
    pub(crate) async fn starting() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path());
        let control_plane = ControlPlane::start_with(config, Faults::default()).await.unwrap();
        Self { control_plane, folder: Some(folder) }
    }

    async fn started(folder: TempDir, config: Config, faults: Faults) -> Self {
        let control_plane = ControlPlane::start_with(config, faults).await.unwrap();
        let test = Self { control_plane, folder: Some(folder) };
        test.wait_until_ready().await;
        test
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub(crate) async fn wait_until_ready(&self) {
        while get(self.control_plane.diagnostics, "/ready").await.status != StatusCode::OK {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn http(&self) -> SocketAddr {
        self.control_plane.http.unwrap()
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.http(), path).await
    }

    pub(crate) async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, &[], body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, &[], String::new()).await
    }

    pub(crate) async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: String) -> Answer {
        send(self.http(), method, path, headers, body).await
    }
}

pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    send(address, Method::GET, path, &[], String::new()).await
}

pub(crate) async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> Answer {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let mut request = Request::builder().method(method).uri(format!("http://{address}{path}"));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header(header::CONTENT_TYPE, "application/json");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.request(request.body(Full::new(Bytes::from(body))).unwrap()).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Answer { status, text: String::from_utf8(bytes.to_vec()).unwrap() }
}
