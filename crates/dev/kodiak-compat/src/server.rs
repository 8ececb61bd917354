//! A control plane to be asked: Kodiak in this process, or another one at an address.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
};

use anyhow::Context as _;
use http_body_util::{BodyExt as _, Full};
use hyper::{Method, Request, body::Bytes};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use kodiak_cp::{Config, ControlPlane, config::StoreType};
use serde_json::Value;
use tempfile::TempDir;

pub(crate) struct Server {
    pub(crate) url: String,
    client: Client<HttpConnector, Full<Bytes>>,
    own: Option<(ControlPlane, TempDir)>,
}

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) text: String,
}

impl Server {
    /// Kodiak with an empty store, on ports that the system chooses.
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("kodiak-compat-").tempdir()?;
        let mut config = Config::default();
        config.general.work_dir = folder.path().to_path_buf();
        config.store.store_type = StoreType::Memory;
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        config.api_server.http.port = 0;
        config.api_server.https.enabled = false;
        (config.dp_server.port, config.dp_server.interface) = (0, here);
        (config.diagnostics.server_port, config.diagnostics.health_port) = (0, 0);
        config.monitoring_assignment_server.port = 0;
        let control_plane = ControlPlane::start(config).await?;
        let address = control_plane.http.context("the control plane has no API")?;
        let server = Self { own: Some((control_plane, folder)), ..Self::at(format!("http://{address}")) };
        server.until_defaults_exist().await?;
        Ok(server)
    }

    pub(crate) fn at(url: String) -> Self {
        Self { url, client: Client::builder(TokioExecutor::new()).build_http(), own: None }
    }

    /// Default resources are created in the background.
    async fn until_defaults_exist(&self) -> anyhow::Result<()> {
        for path in
            ["/meshes/default", "/hostnamegenerators/local-universal-mesh-service", "/globalsecrets/admin-user-token"]
        {
            while self.send("GET", path, &BTreeMap::new(), None).await?.status != 200 {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
        Ok(())
    }

    /// `request` is a method and a path with its query.
    pub(crate) async fn request(
        &self,
        request: &str,
        headers: &BTreeMap<String, String>,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let (method, path) = request.split_once(' ').with_context(|| format!("{request:?} has no method"))?;
        self.send(method, path, headers, body).await.with_context(|| request.to_owned())
    }

    async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &BTreeMap<String, String>,
        body: Option<&Value>,
    ) -> anyhow::Result<Reply> {
        let mut request = Request::builder().method(Method::from_bytes(method.as_bytes())?);
        request = request.uri(format!("{}{path}", self.url)).header("accept", "application/json");
        if body.is_some() && !headers.contains_key("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        // A text is sent as it is.
        let body = match body {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(body) => body.to_string(),
        };
        let response = self.client.request(request.body(Full::from(body))?).await?;
        let content_type = response.headers().get("content-type").and_then(|value| value.to_str().ok());
        let (status, content_type) = (response.status().as_u16(), content_type.unwrap_or_default().to_owned());
        let text = String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).into_owned();
        Ok(Reply { status, content_type, text })
    }

    pub(crate) async fn stop(self) -> anyhow::Result<()> {
        match self.own {
            Some((control_plane, _folder)) => control_plane.stop().await,
            None => Ok(()),
        }
    }
}
