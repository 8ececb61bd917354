//! MeshHTTPRoute: matches and filters.

use hyper::StatusCode;
use serde_json::{Value, json};

use super::routes;
use crate::harness::{Dataplane, Mesh, Mtls, Service, Sidecar, eventually, expect};

#[tokio::test(flavor = "multi_thread")]
async fn matches_route_and_filters_modify_requests() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let canary = mesh.serving("canary", |service| Dataplane::serving_as("canary", "canary", service));
    let ((backend, _backend), (canary, _canary)) = tokio::join!(mesh.backend("backend-1"), canary);
    let client = mesh.client().await;

    mesh.put("MeshHTTPRoute", "requests", &routes(&rules())).await;
    eventually("the header decides", async || {
        let answer = client.call_with("/", &[("x-version", "canary")]).await?;
        expect(answer.text == "canary", answer)
    })
    .await;
    assert_eq!(answered(&client, "/", &[("x-version", "other")]).await, "backend-1");
    assert_eq!(answered(&client, "/", &[]).await, "backend-1");

    check_rewritten(&client, &backend).await;
    check_copied(&client, &canary).await;
    check_redirected(&client).await;
}

fn rules() -> Value {
    let below = |path: &str| json!([{ "path": { "type": "PathPrefix", "value": path } }]);
    let replace = |prefix: &str| json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": prefix });
    let modifier = json!({
        "set": [{ "name": "x-set", "value": "ours" }],
        "add": [{ "name": "x-add", "value": "ours" }],
        "remove": ["x-remove"],
    });
    let canary = json!({ "kind": "MeshService", "name": "canary" });
    json!([
        {
            "matches": [{ "headers": [{ "type": "Exact", "name": "x-version", "value": "canary" }] }],
            "default": { "backendRefs": [canary] },
        },
        {
            "matches": below("/api"),
            "default": { "filters": [
                { "type": "URLRewrite", "urlRewrite": { "path": replace("/v2") } },
                { "type": "RequestHeaderModifier", "requestHeaderModifier": modifier },
                { "type": "ResponseHeaderModifier",
                  "responseHeaderModifier": { "add": [{ "name": "x-answered", "value": "ours" }] } },
            ] },
        },
        {
            "matches": below("/copied"),
            "default": { "filters": [{ "type": "RequestMirror", "requestMirror": { "backendRef": canary } }] },
        },
        {
            "matches": below("/old"),
            "default": { "filters": [{ "type": "RequestRedirect", "requestRedirect": {
                "scheme": "https", "hostname": "new.example", "port": 8443, "path": replace("/new"), "statusCode": 301,
            } }] },
        },
    ])
}

async fn answered(client: &Sidecar, path: &str, headers: &[(&str, &str)]) -> String {
    client.call_with(path, headers).await.unwrap().fine().text
}

async fn check_rewritten(client: &Sidecar, backend: &Service) {
    let theirs = [("x-set", "theirs"), ("x-add", "theirs"), ("x-remove", "theirs"), ("x-other", "theirs")];
    for (sent, came) in [
        ("/api/users?all=1", "/v2/users?all=1"),
        ("/api", "/v2"),
        ("/api/", "/v2/"),
        ("/other/../api/users", "/v2/users"),
    ] {
        let answer = client.call_with(sent, &theirs).await.unwrap().fine();
        assert_eq!(answer.header("x-answered"), "ours");
        let request = backend.last();
        assert_eq!(request.uri.to_string(), came, "{sent}");
        let values = |name: &str| -> Vec<_> { request.headers.get_all(name).iter().collect() };
        assert_eq!(values("x-set"), ["ours"]);
        // One line with both, or two lines: that is the same to who reads them.
        assert_eq!(
            values("x-add").iter().map(|value| value.to_str().unwrap()).collect::<Vec<_>>().join(","),
            "theirs,ours"
        );
        assert!(values("x-remove").is_empty());
        assert_eq!(values("x-other"), ["theirs"]);
    }
    let unlike = client.call_with("/apis", &theirs).await.unwrap().fine();
    assert_eq!((unlike.header("x-answered"), backend.last().uri.to_string().as_str()), ("", "/apis"));
    assert_eq!(backend.last().headers["x-remove"], "theirs");
}

async fn check_copied(client: &Sidecar, canary: &Service) {
    assert_eq!(answered(client, "/copied/this", &[]).await, "backend-1");
    eventually("the copy is there", async || {
        let request = canary.last();
        expect(request.uri == "/copied/this", request.uri)
    })
    .await;
}

async fn check_redirected(client: &Sidecar) {
    for (sent, location) in
        [("/old/page?a=b", "https://new.example:8443/new/page?a=b"), ("/old", "https://new.example:8443/new")]
    {
        let answer = client.call_with(sent, &[]).await.unwrap();
        assert_eq!((answer.status, answer.header("location")), (StatusCode::MOVED_PERMANENTLY, location));
    }
}
