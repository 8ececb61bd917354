//! Properties of the whole table: where each route is answered, and that none can be forgotten.

use std::{collections::BTreeSet, net::SocketAddr, num::NonZero, sync::Arc, sync::mpsc, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
    http::{Method, Request, StatusCode, header},
    response::Response,
};
use kodiak_catalog::{Catalog, CatalogSettings};
use kodiak_kinds::kinds;
use kodiak_metrics::Metrics;
use kodiak_model::{Access, Cancellation, Place};
use kodiak_pool::{Caller, Pool, PoolLimits};
use kodiak_store::{Backend, Store, StoreConfig};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Compute, Cost, Route, Run, all};
use crate::{
    Api, ApiConfig, Connection, Info, User,
    access::Need,
    body::DocumentLimits,
    handlers::{ComputedCall, Question},
    inspect::NoProxies,
};

struct Bed {
    api: Api,
    router: Router,
}

impl Bed {
    /// A mesh with a proxy, a service and a policy. The pool has one thread, and nobody waits for it.
    async fn new() -> Self {
        let store = Store::open(StoreConfig::new(Backend::Memory)).await.unwrap();
        let place = Place::Zone { name: "east".to_owned() };
        let catalog = Catalog::new(store, CatalogSettings { place, unsafe_delete: false });
        let (config, proxies) = (ApiConfig::default(), Arc::new(NoProxies));
        let pool = Pool::new(PoolLimits { threads: NonZero::<usize>::MIN, queue: 0, longest: Duration::from_mins(10) });
        let api = Api::new(catalog, config, Info::default(), Metrics::new(), proxies, pool);
        let bed = Self { router: crate::router(&api), api };
        let inbound = json!([{ "port": 8080, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } }]);
        let proxying = json!({ "redirectPortInbound": 15006, "redirectPortOutbound": 15001 });
        let networking = json!({ "address": "127.0.0.1", "inbound": inbound, "transparentProxying": proxying });
        let selector = json!({ "dataplaneTags": { "kuma.io/service": "web" } });
        let to = json!([{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": "7s" } }]);
        for (path, document) in [
            ("/meshes/default", json!({ "type": "Mesh", "name": "default", "meshServices": { "mode": "Exclusive" } })),
            (
                "/meshes/default/dataplanes/web-1",
                json!({ "type": "Dataplane", "mesh": "default", "name": "web-1", "networking": networking }),
            ),
            (
                "/meshes/default/meshservices/web",
                json!({ "type": "MeshService", "mesh": "default", "name": "web",
                        "spec": { "selector": selector, "ports": [{ "port": 80, "targetPort": 8080 }] } }),
            ),
            (
                "/meshes/default/meshtimeouts/slow",
                json!({ "type": "MeshTimeout", "mesh": "default", "name": "slow", "spec": { "to": to } }),
            ),
        ] {
            let written = bed.ask(Method::PUT, path, &document.to_string(), true).await;
            assert_eq!(written.status(), StatusCode::CREATED, "{path}: {}", text(written).await);
        }
        bed
    }

    async fn ask(&self, method: Method, path: &str, body: &str, is_local: bool) -> Response {
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        let request = request.header(header::HOST, "localhost:5681");
        let mut request = request.body(Body::from(body.to_owned())).unwrap();
        let peer = SocketAddr::from((if is_local { [127, 0, 0, 1] } else { [192, 0, 2, 1] }, 1));
        request.extensions_mut().insert(Connection::Tcp { peer, tls: false });
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Occupies the thread of the pool until the sender is dropped.
    async fn occupied(&self) -> mpsc::Sender<()> {
        let (release, released) = mpsc::channel::<()>();
        let pool = self.api.pool().clone();
        tokio::spawn(async move {
            let work = move |_: &Cancellation| {
                while released.recv_timeout(Duration::from_millis(1)) == Err(mpsc::RecvTimeoutError::Timeout) {}
            };
            pool.run(Caller::Known, work).await
        });
        while self.api.pool().running() == 0 {
            tokio::task::yield_now().await;
        }
        release
    }
}

async fn text(response: Response) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// A path of the route whose resources exist, if there are some of its kind.
fn path(route: &Route) -> String {
    let name = |path: &str| match path {
        _ if path.contains("/dataplanes/{name}") || path.contains("/dataplanes+insights/{name}") => "web-1",
        _ if path.contains("meshservices/{name}") => "web",
        _ if path.contains("meshtimeouts/{name}") => "slow",
        _ if path.contains("meshes/{name}") => "default",
        _ => "nobody",
    };
    route
        .path
        .replace("{name}", name(&route.path))
        .replace("{mesh}", "default")
        .replace("{service}", "meshtimeouts")
        .replace("{type}", "x")
        .replace("{inbound_kri}", "kri_dp_default_east__web-1_8080")
        .replace("{outbound_kri}", "kri_msvc_default_east__web_80")
        .replace("{route_kri}", "kri_mhttpr_default___nothing_")
        .replace("{kri}", "kri_mt_default___slow_")
}

const QUERY: &str = "client=web-1&destination=web";

fn label(route: &Route) -> String {
    format!("{} {}", route.method, route.path)
}

fn body(route: &Route) -> &'static str {
    if route.method == Method::GET { "" } else { "{}" }
}

/// A route that is missing here is to be computed on the pool. Whoever adds one says why its cost does not depend on what
/// is stored.
#[test]
#[expect(clippy::match_same_arms, reason = "each has its own reason")]
fn lookups_are_listed() {
    let one = |path: &str| path.ends_with("/{name}");
    let expected = |route: &Route| match route.path.as_str() {
        // The control plane itself, counts that writes maintain, and resources that are ignored, normally none.
        "/" | "/config" | "/policies" | "/_resources" | "/openapi.json" | "/who-am-i" | "/global-insights"
        | "/_quarantine" => true,
        // Streamed, one chunk for each that the client has read.
        "/store/backup" => true,
        // Answered by Envoy.
        path if path.ends_with("/{name}/xds")
            || path.ends_with("/{name}/stats")
            || path.ends_with("/{name}/clusters") =>
        {
            true
        }
        // Always rejected.
        "/meshes/{mesh}/dataplanes/{name}/{type}" | "/meshes/{mesh}/{service}/{name}/_hostnames" => true,
        path if path.starts_with("/tokens/") => true,
        // One resource by its key, with its insight or without.
        path if one(path) && route.method == Method::GET => {
            let of_mesh = path.contains("mesh-insights") || path.contains("service-insights");
            !(of_mesh || path == "/meshes/{mesh}/dataplanes/{name}")
        }
        path if path.ends_with("/{name}/_overview") => true,
        path => one(path) && route.method == Method::DELETE,
    };
    let routes = all();
    assert!(routes.len() > 200);
    for route in &routes {
        let is_write = route.method == Method::PUT;
        let wanted = if is_write {
            Cost::Write
        } else if expected(route) {
            Cost::Lookup
        } else {
            Cost::Computed
        };
        assert_eq!(route.run.cost(), wanted, "{}", label(route));
    }
}

#[tokio::test]
async fn everything_but_lookups_waits_for_the_pool() {
    let bed = Bed::new().await;
    let occupied = bed.occupied().await;
    let (mut computed, mut lookups) = (BTreeSet::new(), 0);
    for route in all() {
        let path = match route.run.cost() {
            Cost::Write => format!("{}?dryRun=true", path(&route)),
            Cost::Lookup | Cost::Computed => format!("{}?{QUERY}", path(&route)),
        };
        // Nothing is deleted.
        let path = if route.method == Method::DELETE { path.replace("slow", "x").replace("web", "x") } else { path };
        if route.method == Method::DELETE && path.starts_with("/meshes/default?") {
            continue;
        }
        let answer = bed.ask(route.method.clone(), &path, body(&route), true).await;
        let busy = answer.status() == StatusCode::SERVICE_UNAVAILABLE;
        if route.run.cost() == Cost::Lookup {
            assert!(!busy, "{}", label(&route));
            lookups += 1;
            continue;
        }
        // Kinds that only the control plane writes are refused on the pool, too.
        assert!(busy, "{}: {}", label(&route), answer.status());
        assert!(answer.headers().contains_key(header::RETRY_AFTER), "{}", label(&route));
        let detail = text(answer).await;
        assert!(detail.contains("try again"), "{}: {detail}", label(&route));
        computed.insert((route.method.to_string(), path));
    }
    assert!(computed.len() > 150 && lookups > 50, "{} computed, {lookups} lookups", computed.len());
    drop(occupied);
    while bed.api.pool().running() > 0 {
        tokio::task::yield_now().await;
    }
    for (method, path) in computed {
        let body = if method == "GET" { "" } else { "{}" };
        let answer = bed.ask(method.parse().unwrap(), &path, body, true).await;
        assert_ne!(answer.status(), StatusCode::SERVICE_UNAVAILABLE, "{method} {path}");
    }
}

#[tokio::test]
async fn every_computed_answer_notices_that_it_is_cancelled() {
    let bed = Bed::new().await;
    let mut noticed = 0;
    for route in all() {
        let Run::Computed(compute) = &route.run else { continue };
        let run = |compute: &Compute, cancelled: bool| {
            let path = path(&route);
            let pattern = route.path.split('/').zip(path.split('/'));
            let params = pattern.filter(|(pattern, _)| pattern.starts_with('{')).map(|(_, value)| value.to_owned());
            let cancellation = Cancellation::never();
            if cancelled {
                cancellation.cancel();
            }
            let (user, query) = (User::admin(), QUERY.to_owned());
            let question = Question {
                params: params.collect(),
                query,
                route: route.path.clone(),
                url: path.clone(),
                user: user.clone(),
            };
            let limits = DocumentLimits::of(&bed.api.config().access, &user);
            let call = ComputedCall { question, body: Bytes::from_static(b"{}"), limits, cancellation };
            compute(&bed.api, &call)
        };
        if run(compute, false).is_err() {
            continue;
        }
        let cancelled = run(compute, true).err().map(axum::response::IntoResponse::into_response);
        let status = cancelled.map(|response| response.status());
        assert_eq!(status, Some(StatusCode::SERVICE_UNAVAILABLE), "{}", label(&route));
        noticed += 1;
    }
    assert!(noticed > 80, "only {noticed} routes have an answer here");
}

#[tokio::test]
async fn documents_of_anonymous_users_are_not_read() {
    let bed = Bed::new().await;
    let mut refused = 0;
    for route in all() {
        let takes_documents = matches!(route.method, Method::PUT | Method::POST);
        if !takes_documents {
            continue;
        }
        assert!(!matches!(route.need, Need::Nothing | Need::ReadAny | Need::Read(_)), "{}", label(&route));
        let answer = bed.ask(route.method.clone(), &path(&route), "{}", false).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{}", label(&route));
        let detail = text(answer).await;
        if let Need::Preview | Need::Diff = route.need {
            assert!(detail.contains("access.anonymousPreviews=true"), "{detail}");
        }
        refused += 1;
    }
    assert!(refused > kinds().iter().filter(|kind| kind.access != Access::ReadOnly).count());
}

#[test]
fn limits_of_readers_are_much_smaller_than_those_of_writers() {
    let mut access = ApiConfig::default().access;
    let user = User { name: "john".to_owned(), groups: vec!["mesh-system:authenticated".to_owned()] };
    let writer = DocumentLimits::of(&access, &user);
    access.modify_resources.groups = vec!["writers".to_owned()];
    let reader = DocumentLimits::of(&access, &user);
    assert!(16 * reader.bytes <= writer.bytes && 16 * reader.documents <= writer.documents);
    assert!(reader.check(reader.documents).is_ok());
    assert!(reader.check(reader.documents + 1).is_err() && writer.check(reader.documents + 1).is_ok());
}

#[tokio::test]
async fn request_beyond_the_limits_of_documents_is_refused_with_advice() {
    let bed = Bed::new().await;
    let documents: Vec<Value> =
        (0..10_001).map(|n| json!({ "type": "MeshTimeout", "name": format!("t-{n}") })).collect();
    for path in ["_diff", "_permissions/check", "_migration/convert", "_migration/identity/convert"] {
        let body = json!({ "resources": documents }).to_string();
        let answer = bed.ask(Method::POST, &format!("/meshes/default/{path}"), &body, true).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE, "{path}");
        assert!(text(answer).await.contains("at most 10000 are allowed; split the request"), "{path}");
    }
}

/// Time that this thread has spent on a processor: unlike the time of a clock, it does not depend on what else the machine
/// does.
fn processor_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).unwrap()
}

#[tokio::test]
async fn cost_of_previews_is_proportional_to_their_documents() {
    let bed = Bed::new().await;
    let selector = json!({ "dataplane": { "matchLabels": {} } });
    let spec = json!({ "selector": selector, "spiffeID": { "trustDomain": "web.example" } });
    let identity = json!({ "type": "MeshIdentity", "mesh": "default", "name": "identity", "spec": spec });
    let written = bed.ask(Method::PUT, "/meshes/default/meshidentities/identity", &identity.to_string(), true).await;
    assert_eq!(written.status(), StatusCode::CREATED, "{}", text(written).await);
    let documents = |count: usize| {
        let from = |n: usize| {
            let target = json!({ "kind": "MeshSubset", "tags": { "kuma.io/service": format!("s-{n}") } });
            json!([{ "targetRef": target, "default": { "action": "Allow" } }])
        };
        let document = |n: usize| json!({ "type": "MeshTrafficPermission", "mesh": "default", "name": format!("p-{n}"), "spec": { "from": from(n) } });
        Bytes::from(json!({ "resources": (0..count).map(document).collect::<Vec<_>>() }).to_string())
    };
    let mut compared = 0;
    for route in all().into_iter().filter(|route| matches!(route.need, Need::Preview)) {
        let Run::Computed(compute) = &route.run else { panic!("{} is not computed", label(&route)) };
        let cost = |count: usize| {
            let user = User::admin();
            let limits = DocumentLimits::of(&bed.api.config().access, &user);
            let question = Question {
                params: vec!["default".to_owned()],
                query: String::new(),
                route: route.path.clone(),
                url: String::new(),
                user,
            };
            let call = ComputedCall { question, body: documents(count), limits, cancellation: Cancellation::never() };
            let started = processor_time();
            assert!(compute(&bed.api, &call).is_ok(), "{}", label(&route));
            processor_time().checked_sub(started).unwrap()
        };
        let least = |count| (0..3).map(|_| cost(count)).min().unwrap();
        let (some, four_times_as_many) = (least(250), least(1_000));
        assert!(four_times_as_many < 8 * some, "{}: {some:?}, then {four_times_as_many:?}", label(&route));
        compared += 1;
    }
    assert_eq!(compared, 3);
}
