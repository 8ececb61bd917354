//! Inspection routes, called through the router.

mod by_kri;
mod identity_migration;
mod legacy_names;
mod members;
mod mesh;
mod migration;
mod old;
mod references;
mod rules;
mod status;

use std::{net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::{Body, to_bytes},
    http::{Method, Request, header},
};
use kodiak_catalog::{Catalog, CatalogSettings};
use kodiak_metrics::Metrics;
use kodiak_model::Place;
use kodiak_pool::Pool;
use kodiak_store::{Backend, Store, StoreConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{Api, ApiConfig, Connection, Info, inspect::NoProxies};

const WEB: &str = "/meshes/default/dataplanes/web-1";

struct World {
    api: Api,
    router: Router,
}

impl World {
    /// A mesh without policies, in zone `east`.
    async fn new(mode: &str) -> Self {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let place = Place::Zone { name: "east".to_owned() };
        let catalog = Catalog::new(store, CatalogSettings { place, unsafe_delete: false });
        let (config, proxies) = (ApiConfig::default(), Arc::new(NoProxies));
        let api = Api::new(catalog, config, Info::default(), Metrics::new(), proxies, Pool::default());
        let world = Self { router: crate::router(&api), api };
        world.mode(mode).await;
        world
    }

    async fn mode(&self, mode: &str) {
        let mesh = json!({
            "type": "Mesh", "name": "default", "meshServices": { "mode": mode }, "skipCreatingInitialPolicies": ["*"],
        });
        self.write("/meshes/default", &mesh).await;
    }

    async fn ask(&self, method: Method, path: &str, body: String) -> (u16, Value) {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "localhost:5681")
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body))
            .unwrap();
        request.extensions_mut().insert(Connection::Tcp { peer: SocketAddr::from(([127, 0, 0, 1], 1)), tls: false });
        let response = self.router.clone().oneshot(request).await.unwrap();
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn write(&self, path: &str, document: &Value) {
        let (status, body) = self.ask(Method::PUT, path, document.to_string()).await;
        assert!(status < 300, "{path}: {body}");
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.ask(Method::GET, path, String::new()).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    async fn refused(&self, path: &str) -> (u16, String, String) {
        let (status, body) = self.ask(Method::GET, path, String::new()).await;
        let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
        (status, text("title"), text("detail"))
    }

    async fn dataplane(&self, name: &str, networking: Value) {
        let mut document = json!({ "type": "Dataplane", "mesh": "default", "name": name, "networking": networking });
        document["networking"]["address"] = json!("127.0.0.1");
        self.write(&format!("/meshes/default/dataplanes/{name}"), &document).await;
    }

    /// A client with two ports.
    async fn web(&self) {
        let inbounds = json!([
            { "port": 9090, "name": "metrics", "tags": { "kuma.io/service": "metrics" } },
            { "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } },
        ]);
        self.dataplane("web-1", json!({ "inbound": inbounds })).await;
    }

    async fn put(&self, kind: &str, path: &str, name: &str, spec: Value) {
        self.labelled(kind, path, name, json!({}), spec).await;
    }

    async fn labelled(&self, kind: &str, path: &str, name: &str, labels: Value, spec: Value) {
        let document = json!({ "type": kind, "mesh": "default", "name": name, "labels": labels, "spec": spec });
        self.write(&format!("/meshes/default/{path}/{name}"), &document).await;
    }

    async fn timeout(&self, name: &str, spec: Value) {
        self.put("MeshTimeout", "meshtimeouts", name, spec).await;
    }

    /// A MeshService with the ports `http` and `81`.
    async fn service(&self, name: &str) {
        let ports = json!([
            { "name": "http", "port": 80, "targetPort": 8080, "appProtocol": "http" },
            { "port": 81, "targetPort": 8081 },
        ]);
        let selector = json!({ "dataplaneTags": { "kuma.io/service": name } });
        self.put("MeshService", "meshservices", name, json!({ "selector": selector, "ports": ports })).await;
    }
}

fn to(target: &Value, seconds: u32) -> Value {
    json!({ "targetRef": target, "default": { "idleTimeout": format!("{seconds}s") } })
}

fn for_callers(seconds: u32) -> Value {
    json!([{ "default": { "idleTimeout": format!("{seconds}s") } }])
}

fn texts<'a>(list: &'a Value, field: &str) -> Vec<&'a str> {
    list.as_array().unwrap().iter().map(|each| each.pointer(field).unwrap().as_str().unwrap()).collect()
}
