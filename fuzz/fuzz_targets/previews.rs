//! Previews of documents, through the router of the API: the first byte selects the route, the second one the kind of a
//! document, and the rest is the document, or the whole body if that has `resources`.
//!
//! A preview answers or refuses, whatever the documents are, and stores nothing.
#![no_main]

use std::{
    net::SocketAddr,
    sync::{Arc, LazyLock},
};

use axum::{
    Router,
    body::Body,
    http::{Request, header},
};
use kodiak_api::{Api, ApiConfig, Connection, Info, Pool};
use kodiak_catalog::{Catalog, CatalogSettings, Rights, Target};
use kodiak_cp::Offline;
use kodiak_engine::EngineSettings;
use kodiak_kinds::{Kind, kinds};
use kodiak_metrics::Metrics;
use kodiak_model::{Place, Shape};
use kodiak_services::service_status::ServiceSettings;
use kodiak_store::{Backend, Store, StoreConfig};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const ROUTES: [&str; 6] = [
    "_diff?full=true",
    "_permissions/check?shadow=true",
    "_permissions/check?enforced=true&shadowDeny=true",
    "_migration/convert",
    "_migration/identity/convert",
    "",
];

/// A mesh of two proxies, with a permission by tags and a MeshIdentity.
struct Bed {
    runtime: Runtime,
    store: Store,
    router: Router,
}

static BED: LazyLock<Bed> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    let (store, router) = runtime.block_on(made());
    Bed { runtime, store, router }
});

async fn made() -> (Store, Router) {
    let store = Store::open(StoreConfig::new(Backend::Memory)).await.expect("a store in memory can be opened");
    let place = Place::Zone { name: "zone-1".to_owned() };
    let catalog = Catalog::new(store.clone(), CatalogSettings { place, unsafe_delete: false });
    let from = json!([{ "targetRef": { "kind": "MeshService", "name": "web" }, "default": { "action": "Allow" } }]);
    let dataplane = |service: &str| {
        let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": service, "kuma.io/protocol": "http" } }]);
        let proxying = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
        json!({ "networking": { "address": "10.0.0.1", "inbound": inbound, "transparentProxying": proxying } })
    };
    let backends = json!([{ "name": "ca", "type": "builtin" }]);
    for (kind, name, mut document) in [
        ("Mesh", "default", json!({ "mtls": { "enabledBackend": "ca", "backends": backends } })),
        ("Dataplane", "web-1", dataplane("web")),
        ("Dataplane", "api-1", dataplane("api")),
        ("MeshTrafficPermission", "web", json!({ "spec": { "from": from } })),
        ("MeshIdentity", "identity", json!({ "spec": { "selector": { "dataplane": {} } } })),
    ] {
        let kind = kinds().by_name(kind).expect("the kinds of the bed exist");
        let mesh = if kind.name == "Mesh" { "" } else { "default" };
        for (field, value) in [("type", kind.name), ("mesh", mesh), ("name", name)] {
            document[field] = json!(value);
        }
        let written = catalog.put_with(Target { kind, mesh, name }, document, Rights::ALL).await;
        written.unwrap_or_else(|refusal| panic!("{name}: {refusal}"));
    }
    let settings = EngineSettings { zone: "zone-1".into(), ..EngineSettings::default() };
    let proxies = Arc::new(Offline::new(store.clone(), settings, ServiceSettings::default()));
    let api = Api::new(catalog, ApiConfig::default(), Info::default(), Metrics::new(), proxies, Pool::default());
    (store, kodiak_api::router(&api))
}

fuzz_target!(|data: &[u8]| {
    let [route, kind, json @ ..] = data else { return };
    let Some(kind) = kinds().iter().nth(usize::from(*kind) % kinds().iter().count()) else { return };
    let Ok(Value::Object(body)) = serde_json::from_slice(json) else { return };
    let route = ROUTES[usize::from(*route) % ROUTES.len()];
    let (method, path, body) = if body.contains_key("resources") && !route.is_empty() {
        ("POST", format!("/meshes/default/{route}"), Value::Object(body))
    } else {
        let document = document(kind, body);
        let name = document["name"].as_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        match route {
            "" => {
                ("PUT", format!("/meshes/default/{}/{}?dryRun=true", kind.path, name.unwrap_or("a")), document.into())
            }
            route => ("POST", format!("/meshes/default/{route}"), json!({ "resources": [document] })),
        }
    };
    let request = Request::builder().method(method).uri(&path).header(header::HOST, "localhost:5681");
    let request = request.header(header::CONTENT_TYPE, "application/json").body(Body::from(body.to_string()));
    let Ok(mut request) = request else { return };
    request.extensions_mut().insert(Connection::Tcp { peer: SocketAddr::from(([127, 0, 0, 1], 1)), tls: false });
    let before = BED.store.snapshot().revision();
    let answer = BED.runtime.block_on(BED.router.clone().oneshot(request)).expect("the router is infallible");
    assert_ne!(answer.status().as_u16(), 500, "{method} {path}: {body}");
    assert_eq!(BED.store.snapshot().revision(), before, "{method} {path} stored something");
});

fn document(kind: &Kind, body: Map<String, Value>) -> Map<String, Value> {
    let mut document = match kind.shape {
        Shape::Plugin if !body.contains_key("spec") => Map::from_iter([("spec".to_owned(), Value::Object(body))]),
        Shape::Plugin | Shape::Legacy => body,
    };
    let name = if kind.name == "Mesh" { "default" } else { "a" };
    for (field, value) in [("type", kind.name), ("mesh", "default"), ("name", name)] {
        document.entry(field).or_insert_with(|| Value::from(value));
    }
    document
}
