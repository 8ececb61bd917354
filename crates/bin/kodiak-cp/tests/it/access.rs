//! Authorisation of every route.
//!
//! The expectations are written by hand, independent of the table of routes. A route without a rule below fails the
//! test, so a new one cannot be forgotten.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

/// Least privilege that a route requires.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Least {
    Anyone,
    /// With a token of any user.
    User,
    Admin,
}

/// Expected privilege of a route, by its path. `None` fails the test.
fn expected(method: &str, path: &str) -> Option<Least> {
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let thing = match segments.as_slice() {
        [] => "",
        // Routes that show configuration, or quote it.
        ["meshes", "{mesh}", "dataplanes", "{name}", "_config" | "_status" | "xds"]
        | ["zoneingresses" | "zone-ingresses" | "zoneegresses", "{name}", "xds"] => {
            return (method == "get").then_some(Least::Admin);
        }
        // Statistics and clusters of an Envoy, which the control plane asks for.
        ["meshes", "{mesh}", "dataplanes", "{name}", "stats" | "clusters"]
        | ["zoneingresses" | "zone-ingresses" | "zoneegresses", "{name}", "stats" | "clusters"] => {
            return (method == "get").then_some(Least::User);
        }
        ["store", "backup"] => return (method == "get").then_some(Least::Admin),
        ["meshes", "{mesh}", "_diff"] => return (method == "post").then_some(Least::Admin),
        // Previews of documents; nothing is stored. The second one stores with `apply`, if the user may write permissions.
        ["meshes", "{mesh}", "_migration", "convert"]
        | ["meshes", "{mesh}", "_migration", "identity", "convert"]
        | ["meshes", "{mesh}", "_permissions", "check"] => {
            return (method == "post").then_some(Least::User);
        }
        // The last one is always rejected.
        [
            "meshes",
            "{mesh}",
            "_policies" | "_migration" | "_traffic" | "_graph" | "_why" | "_reachability" | "_identities",
        ]
        | ["meshes", "{mesh}", "_migration", "consumers"]
        | ["meshes", "{mesh}", _, "{name}", "_status"]
        | ["meshes", "{mesh}", "{service}", "{name}", "_hostnames"] => {
            return (method == "get").then_some(Least::Anyone);
        }
        // Computed from resources that anyone may read, and read-only.
        [
            "meshes",
            "{mesh}",
            _,
            "{name}",
            "_rules" | "_policies" | "_inbounds" | "_outbounds" | "_layout" | "_references" | "_hostnames"
            | "_resources" | "_dataplanes" | "dataplanes" | "policies" | "rules",
            ..,
        ] => return (method == "get").then_some(Least::Anyone),
        ["meshes", "{mesh}", thing, ..] | [thing, ..] => thing,
    };
    match thing {
        "secrets" | "globalsecrets" | "global-secrets" => Some(Least::Admin),
        "tokens" => (method == "post").then_some(Least::Admin),
        "" | "config" | "policies" | "_resources" | "_quarantine" | "_kri" | "openapi.json" | "who-am-i"
        | "global-insight" | "global-insights" => (method == "get").then_some(Least::Anyone),
        "meshes"
        | "dataplanes"
        | "dataplanes+insights"
        | "dataplane-insights"
        | "zones"
        | "zones+insights"
        | "zone-insights"
        | "zoneingresses"
        | "zoneingresses+insights"
        | "zone-ingresses"
        | "zone-ingress-insights"
        | "zoneegresses"
        | "zoneegressoverviews"
        | "zoneegressinsights"
        | "mesh-insights"
        | "service-insights"
        | "meshgateways"
        | "meshservices"
        | "meshexternalservices"
        | "meshmultizoneservices"
        | "hostnamegenerators"
        | "meshidentities"
        | "meshtrusts"
        | "meshopentelemetrybackends"
        | "meshzoneaddresses"
        | "workloads"
        | "meshtrafficpermissions"
        | "meshhttproutes"
        | "meshtcproutes"
        | "meshloadbalancingstrategies"
        | "meshtimeouts"
        | "meshretries"
        | "meshcircuitbreakers"
        | "meshhealthchecks"
        | "meshtlses"
        | "meshaccesslogs"
        | "meshmetrics"
        | "meshratelimits"
        | "meshfaultinjections"
        | "meshpassthroughs"
        | "meshproxypatches"
        | "meshtraces" => Some(if method == "get" { Least::Anyone } else { Least::User }),
        _ => None,
    }
}

#[tokio::test]
async fn every_route_requires_the_expected_privilege() {
    let cp = TestControlPlane::start().await;
    check_routes(&cp, expected).await;
}

/// As in Kuma.
#[tokio::test]
async fn anonymous_writes_can_be_enabled() {
    let cp = TestControlPlane::start_with(|config| config.access.anonymous_writes = true).await;
    let open = |method: &str, path: &str| {
        let is_write = method != "get";
        expected(method, path).map(|least| if least == Least::User && is_write { Least::Anyone } else { least })
    };
    check_routes(&cp, open).await;
}

#[tokio::test]
async fn error_of_an_anonymous_write_has_advice() {
    let cp = TestControlPlane::start().await;
    let remote = [("x-real-ip", "192.0.2.1")];
    let mesh = json!({ "type": "Mesh", "name": "m" }).to_string();
    let refused = cp.send(Method::PUT, "/meshes/m", &remote, mesh).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
    let detail = refused.json()["detail"].as_str().unwrap().to_owned();
    for part in ["anonymous", "\"Mesh\"", "Authorization: Bearer", "access.anonymousWrites"] {
        assert!(detail.contains(part), "{part}: {detail}");
    }
    assert_eq!(cp.get("/meshes/m").await.status, StatusCode::NOT_FOUND);
    let secret = cp.send(Method::GET, "/globalsecrets", &remote, String::new()).await.json()["detail"].to_string();
    assert!(!secret.contains("anonymousWrites"), "that would not help: {secret}");
}

async fn check_routes(cp: &TestControlPlane, expected: impl Fn(&str, &str) -> Option<Least>) {
    let document = cp.get("/openapi.json").await.json();
    let body = json!({ "name": "john", "groups": ["team"], "validFor": "1h" }).to_string();
    let user = format!("Bearer {}", cp.send(Method::POST, "/tokens/user", &[], body).await.text);
    let remote = ("x-real-ip", "192.0.2.1");
    let mut routes = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let least = expected(method, path).unwrap_or_else(|| panic!("no authorisation case for {method} {path}"));
            assert!(operation["x-kodiak-access"].is_string(), "{method} {path} does not say what it needs");
            let kri = "kri_m____default_";
            let filled = [
                ("{mesh}", "default"),
                ("{name}", "nobody"),
                ("{kri}", kri),
                ("{inbound_kri}", kri),
                ("{outbound_kri}", kri),
                ("{route_kri}", kri),
                ("{type}", "x"),
                ("{service}", "x"),
            ];
            let url = filled.iter().fold(path.clone(), |url, (part, value)| url.replace(part, value));
            let verb: Method = method.to_uppercase().parse().unwrap();
            let send = async |headers: &[(&str, &str)]| {
                cp.send(verb.clone(), &url, headers, "{}".to_owned()).await.status == StatusCode::FORBIDDEN
            };
            assert_eq!(send(&[remote]).await, least != Least::Anyone, "anonymous: {method} {path}");
            let denied = least == Least::Admin;
            assert_eq!(send(&[remote, ("authorization", &user)]).await, denied, "user: {method} {path}");
            assert!(!send(&[]).await, "admin: {method} {path}");
            routes += 1;
        }
    }
    assert!(routes > 200, "only {routes} routes were looked at");
}

/// As in Kuma.
#[tokio::test]
async fn everyone_can_be_allowed_to_view_statistics() {
    let cp = TestControlPlane::start_with(|config| {
        config.access.lists.view_stats.groups.push("mesh-system:unauthenticated".to_owned());
    })
    .await;
    let remote = [("x-real-ip", "192.0.2.1")];
    let get = async |page: &str| {
        cp.send(Method::GET, &format!("/meshes/default/dataplanes/nobody/{page}"), &remote, String::new()).await.status
    };
    assert_eq!((get("stats").await, get("clusters").await), (StatusCode::NOT_FOUND, StatusCode::FORBIDDEN));
}

#[tokio::test]
async fn writes_can_be_restricted_to_users_and_groups() {
    let cp = TestControlPlane::start_with(|config| {
        config.access.lists.modify_resources.groups = vec!["writers".to_owned()];
    })
    .await;
    let token = async |groups: Value| {
        let body = json!({ "name": "john", "groups": groups, "validFor": "1h" }).to_string();
        format!("Bearer {}", cp.send(Method::POST, "/tokens/user", &[], body).await.text)
    };
    let remote = ("x-real-ip", "192.0.2.1");
    let mesh = json!({ "type": "Mesh", "name": "m" }).to_string();
    let put = async |headers: &[(&str, &str)]| cp.send(Method::PUT, "/meshes/m", headers, mesh.clone()).await.status;
    assert_eq!(put(&[remote]).await, StatusCode::FORBIDDEN);
    assert_eq!(put(&[remote, ("authorization", &token(json!([])).await)]).await, StatusCode::FORBIDDEN);
    assert_eq!(put(&[remote, ("authorization", &token(json!(["writers"])).await)]).await, StatusCode::CREATED);
    assert_eq!(put(&[]).await, StatusCode::OK);
}

#[tokio::test]
async fn inspection_of_proxies_has_three_access_lists() {
    let cp = TestControlPlane::start_with(|config| {
        let lists = &mut config.access.lists;
        lists.view_config_dump.groups = vec!["mesh-system:unauthenticated".to_owned()];
        for list in [&mut lists.view_stats, &mut lists.view_clusters] {
            list.groups = vec!["operators".to_owned()];
        }
    })
    .await;
    let remote = ("x-real-ip", "192.0.2.1");
    for (what, denied) in
        [("_config", None), ("_status", None), ("xds", None), ("stats", Some("stats")), ("clusters", Some("clusters"))]
    {
        let path = format!("/meshes/default/dataplanes/nobody/{what}");
        let answer = cp.send(Method::GET, &path, &[remote], String::new()).await;
        let expected = if denied.is_some() { StatusCode::FORBIDDEN } else { StatusCode::NOT_FOUND };
        assert_eq!(answer.status, expected, "{what}: {}", answer.text);
        if let Some(action) = denied {
            let user = "mesh-system:anonymous/mesh-system:unauthenticated";
            assert_eq!(answer.json()["detail"], format!("user {user:?} cannot access {action}"));
        }
    }
}

#[tokio::test]
async fn web_page_on_this_machine_has_no_administrator_rights() {
    let cp = TestControlPlane::start().await;
    let host = cp.http().to_string();
    let own = format!("http://{host}");
    let get =
        async |headers: &[(&str, &str)]| cp.send(Method::GET, "/globalsecrets", headers, String::new()).await.status;
    assert_eq!(get(&[]).await, StatusCode::OK);
    assert_eq!(get(&[("origin", &own), ("sec-fetch-site", "same-origin")]).await, StatusCode::OK);
    for foreign in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("x-forwarded-for", "10.0.0.1"),
        ("host", "evil.example"),
    ] {
        assert_eq!(get(&[foreign]).await, StatusCode::FORBIDDEN, "{foreign:?}");
    }
}
