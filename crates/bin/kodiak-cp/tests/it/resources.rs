//! Writes, reads, lists and deletes of resources.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::TestControlPlane;

fn timeout(name: &str, idle: &str) -> Value {
    json!({
        "type": "MeshTimeout", "mesh": "default", "name": name,
        "spec": { "to": [{ "targetRef": { "kind": "Mesh" }, "default": { "idleTimeout": idle } }] },
    })
}

fn dataplane(name: &str, service: &str) -> Value {
    json!({
        "type": "Dataplane", "mesh": "default", "name": name,
        "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": { "kuma.io/service": service } }] },
    })
}

#[tokio::test]
async fn kinds_without_effect_are_stored_with_a_warning() {
    let cp = TestControlPlane::start().await;
    for (kind, path, spec) in
        [("MeshZoneAddress", "meshzoneaddresses", json!({ "address": "10.0.0.1", "port": 10001 }))]
    {
        let path = format!("/meshes/default/{path}/one");
        let document = json!({ "type": kind, "mesh": "default", "name": "one", "spec": spec });
        let put = cp.put(&path, &document).await;
        assert_eq!(put.status, StatusCode::CREATED, "{}", put.text);
        let warning = put.json()["warnings"][0].as_str().unwrap().to_owned();
        assert!(warning.starts_with(&format!("{kind} has no effect: ")), "{warning}");
        assert_eq!(cp.get(&path).await.json()["spec"], spec);
    }
}

#[tokio::test]
async fn resource_can_be_created_read_updated_and_deleted() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/meshtimeouts/t1";
    assert_eq!(cp.get(path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(cp.put(path, &timeout("t1", "1h")).await.status, StatusCode::CREATED);
    let read = cp.get(path).await.json();
    assert_eq!(read["spec"]["to"][0]["default"]["idleTimeout"], "1h0m0s");
    assert_eq!(read["kri"], "kri_mt_default_default__t1_");
    assert_eq!(read["labels"]["kuma.io/origin"], "zone");
    // A resource can be written back as it was read, and is unchanged.
    assert_eq!(cp.put(path, &read).await.status, StatusCode::OK);
    assert_eq!(cp.get(path).await.json(), read);
    assert_eq!(cp.put(path, &timeout("t1", "2h")).await.status, StatusCode::OK);
    let changed = cp.get(path).await.json();
    assert_eq!(changed["spec"]["to"][0]["default"]["idleTimeout"], "2h0m0s");
    assert_eq!(changed["creationTime"], read["creationTime"]);
    assert_ne!(changed["modificationTime"], read["modificationTime"]);
    assert_eq!(cp.get("/_kri/kri_mt_default_default__t1_").await.json(), changed);
    let deleted = cp.delete(path).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (StatusCode::OK, "{}"));
    assert_eq!(cp.delete(path).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn resources_can_be_read_in_kubernetes_format() {
    let cp = TestControlPlane::start().await;
    cp.put("/meshes/default/dataplanes/dp-1", &dataplane("dp-1", "web")).await;
    let policy = cp.get("/meshes/default/meshretries/mesh-retry-all-default?format=k8s").await.json();
    assert_eq!((&policy["apiVersion"], &policy["kind"]), (&json!("kuma.io/v1alpha1"), &json!("MeshRetry")));
    assert_eq!(policy["metadata"]["namespace"], "kuma-system");
    assert_eq!(policy["metadata"]["labels"]["kuma.io/mesh"], "default");
    assert_eq!(policy["spec"]["targetRef"]["kind"], "Mesh");
    let proxy = cp.get("/meshes/default/dataplanes/dp-1?format=kubernetes&namespace=demo").await.json();
    assert_eq!((&proxy["mesh"], &proxy["metadata"]["namespace"]), (&json!("default"), &json!("demo")));
    let mesh = cp.get("/meshes/default?format=k8s").await.json();
    assert_eq!(mesh["metadata"], json!({ "name": "default" }));
    let secret = cp.get("/globalsecrets/envoy-admin-ca?format=k8s").await.json();
    assert_eq!((&secret["kind"], &secret["type"]), (&json!("Secret"), &json!("system.kuma.io/global-secret")));
    let wrong = cp.get("/meshes/default?format=xml").await.json();
    assert_eq!(wrong["detail"], r#""format" must be one of ["k8s", "kubernetes", "universal"]"#);
}

#[tokio::test]
async fn invalid_write_reports_all_problems_and_changes_nothing() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/meshtimeouts/t1";
    cp.put(path, &timeout("t1", "1h")).await;
    let before = cp.get(path).await.text;
    let mut bad = timeout("t1", "1h");
    bad["spec"] = json!({ "to": [{ "targetRef": { "kind": "Pod" }, "default": { "idleTimeout": 5, "http": { "requestTimeout": "x" } } }] });
    let refused = cp.put(path, &bad).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    let fields: Vec<String> = refused.problems().iter().map(|p| p.split(':').next().unwrap().to_owned()).collect();
    assert_eq!(
        fields,
        ["spec.to[0].targetRef.kind", "spec.to[0].default.idleTimeout", "spec.to[0].default.http.requestTimeout"]
    );
    let empty = cp.put(path, &json!({})).await;
    assert_eq!(
        empty.problems(),
        [": type in body is required", ": name in body is required", ": spec in body is required"]
    );
    let other = cp.put(path, &timeout("other", "1h")).await;
    assert_eq!(other.problems(), ["name: name from the URL has to be the same as in body"]);
    let broken = cp.send(Method::PUT, path, &[], "{".to_owned()).await;
    assert_eq!(broken.json()["detail"], "invalid MeshTimeout object: \"unexpected end of JSON input\"");
    assert_eq!(cp.get(path).await.text, before);
}

#[tokio::test]
async fn unknown_fields_are_accepted_and_reported() {
    let cp = TestControlPlane::start().await;
    let mut document = timeout("t1", "1h");
    document["spec"]["to"][0]["default"]["idelTimeout"] = json!("1s");
    let answer = cp.put("/meshes/default/meshtimeouts/t1", &document).await;
    assert_eq!(answer.status, StatusCode::CREATED);
    let warning = "unknown field spec.to[0].default.idelTimeout is ignored; did you mean idleTimeout?";
    assert_eq!(answer.json(), json!({ "warnings": [warning] }));
}

#[tokio::test]
async fn dry_run_validates_and_changes_nothing() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/meshtimeouts/t1";
    assert_eq!(cp.put(&format!("{path}?dryRun=true"), &timeout("t1", "1h")).await.status, StatusCode::CREATED);
    assert_eq!(cp.get(path).await.status, StatusCode::NOT_FOUND);
    assert_eq!(cp.put(&format!("{path}?dryRun=maybe"), &timeout("t1", "1h")).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn lists_are_paged_and_filtered() {
    let cp = TestControlPlane::start().await;
    for n in 0..5 {
        let name = format!("dp-{n}");
        let service = if n % 2 == 0 { "web" } else { "db" };
        cp.put(&format!("/meshes/default/dataplanes/{name}"), &dataplane(&name, service)).await;
    }
    let names = |list: &Value| -> Vec<String> {
        list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    let first = cp.get("/meshes/default/dataplanes?size=2").await.json();
    assert_eq!((first["total"].as_u64(), names(&first)), (Some(5), vec!["dp-0".into(), "dp-1".into()]));
    let next = first["next"].as_str().unwrap();
    assert_eq!(next, format!("http://{}/meshes/default/dataplanes?offset=2&size=2", cp.http()));
    let last = cp.get("/dataplanes?size=2&offset=4").await.json();
    assert_eq!((names(&last), &last["next"]), (vec!["dp-4".to_owned()], &Value::Null));
    assert_eq!(names(&cp.get("/meshes/default/dataplanes?tag=kuma.io/service:db").await.json()), ["dp-1", "dp-3"]);
    assert_eq!(names(&cp.get("/meshes/default/dataplanes?name=-3").await.json()), ["dp-3"]);
    assert_eq!(names(&cp.get("/dataplanes?filter%5Blabels.kuma.io/zone%5D=default").await.json()).len(), 5);
    assert_eq!(names(&cp.get("/dataplanes?filter[labels.kuma.io/zone]=other").await.json()).len(), 0);
    let unsupported = cp.get("/meshes/default/dataplanes?filter[name]=x").await;
    let problem = "/meshes/{mesh}/dataplanes.filter[name]: filters are only supported on labels";
    assert_eq!(unsupported.problems(), [problem]);
    assert_eq!(cp.get("/dataplanes?gateway=perhaps").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(names(&cp.get("/dataplanes?gateway=true").await.json()).len(), 0);
    assert_eq!(cp.get("/meshes/nowhere/dataplanes").await.json()["title"], "Failed to retrieve Mesh");
}

#[tokio::test]
async fn mesh_is_created_and_deleted_with_keys_and_policies() {
    let cp = TestControlPlane::start().await;
    let mesh = json!({
        "type": "Mesh", "name": "demo",
        "mtls": { "enabledBackend": "ca-1", "backends": [{ "name": "ca-1", "type": "builtin" }] },
    });
    assert_eq!(cp.put("/meshes/demo", &mesh).await.status, StatusCode::CREATED);
    let names = |list: Value| -> Vec<String> {
        list["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(
        names(cp.get("/meshes/demo/secrets").await.json()),
        ["dataplane-token-signing-key-demo-1", "demo.ca-builtin-cert-ca-1", "demo.ca-builtin-key-ca-1"]
    );
    assert_eq!(
        names(cp.get("/meshes/demo/meshtimeouts").await.json()),
        ["mesh-gateways-timeout-all-demo", "mesh-timeout-all-demo"]
    );
    assert_eq!(names(cp.get("/meshes/demo/meshretries").await.json()), ["mesh-retry-all-demo"]);
    let in_use = cp.delete("/meshes/demo/secrets/demo.ca-builtin-key-ca-1").await;
    assert!(in_use.problems()[0].contains("is currently in use in Mesh \"demo\" in mTLS backend \"ca-1\""));

    let mut proxy = dataplane("dp-1", "web");
    proxy["mesh"] = json!("demo");
    cp.put("/meshes/demo/dataplanes/dp-1", &proxy).await;
    let refused = cp.delete("/meshes/demo").await;
    assert_eq!(refused.problems(), ["mesh: unable to delete mesh, there are still some dataplanes attached"]);
    cp.delete("/meshes/demo/dataplanes/dp-1").await;
    assert_eq!(cp.delete("/meshes/demo").await.status, StatusCode::OK);
    for kind in ["secrets", "meshtimeouts", "meshretries", "meshcircuitbreakers"] {
        let list = cp.get(&format!("/{kind}")).await.json();
        assert!(list["items"].as_array().unwrap().iter().all(|item| item["mesh"] != "demo"), "{kind}");
    }
}

#[tokio::test]
async fn provided_ca_must_be_valid() {
    let cp = TestControlPlane::start().await;
    let mesh = |conf: Value| {
        json!({
            "type": "Mesh", "name": "demo",
            "mtls": { "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "provided", "conf": conf }] },
        })
    };
    let missing = cp.put("/meshes/demo", &mesh(json!({ "cert": { "secret": "a" }, "key": { "secret": "b" } }))).await;
    assert_eq!(missing.status, StatusCode::BAD_REQUEST);
    assert_eq!(missing.problems().len(), 2, "{}", missing.text);
    let nonsense = json!({ "cert": { "inlineString": "x" }, "key": { "inlineString": "y" } });
    let refused = cp.put("/meshes/demo", &mesh(nonsense)).await;
    assert!(refused.problems().iter().any(|p| p.contains("not a valid TLS key pair")), "{}", refused.text);
    let device = json!({ "cert": { "file": "/dev/zero" }, "key": { "file": "/nowhere" } });
    let refused = cp.put("/meshes/demo", &mesh(device)).await.problems();
    assert!(refused[0].starts_with("mtls.backends[0].conf.cert.file: file data sources are disabled"));
    assert_eq!(refused[1], refused[0].replace("conf.cert", "conf.key"), "whether a file exists is not told");
    assert_eq!(cp.get("/meshes/demo").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn ca_files_are_read_below_the_data_source_folder_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink("/dev/zero", path("device")).unwrap();
    std::fs::write(path("text"), "no certificate").unwrap();
    let below = folder.path().to_owned();
    let cp = TestControlPlane::start_with(|config| config.general.data_source_folder = below).await;
    let problems = async |cert: &str, key: &str| {
        let conf = json!({ "cert": { "file": cert }, "key": { "file": key } });
        let backend = json!({ "name": "ca", "type": "provided", "conf": conf });
        let mesh = json!({ "type": "Mesh", "name": "demo", "mtls": { "backends": [backend] } });
        cp.put("/meshes/demo", &mesh).await.problems()
    };
    let refused = problems(&path("device"), &path("nowhere")).await;
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused.iter().all(|problem| problem.contains("is not a readable file of at most")), "{refused:?}");
    let refused = problems(&path("text"), &path("text")).await;
    assert!(refused[0].contains("not a valid TLS key pair"), "{refused:?}");
    let refused = problems("/etc/passwd", &path("../text")).await;
    assert!(refused.iter().all(|problem| problem.contains("must be the absolute path of a file below")), "{refused:?}");
}

#[tokio::test]
async fn computed_labels_cannot_be_changed() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/meshtimeouts/t1";
    let mut document = timeout("t1", "1h");
    document["labels"] = json!({ "kuma.io/display-name": "shown", "team": "a" });
    cp.put(path, &document).await;
    document["labels"] = json!({ "kuma.io/display-name": "other" });
    let refused = cp.put(path, &document).await;
    assert_eq!(refused.json()["title"], "Could not update a resource");
    assert_eq!(
        refused.problems(),
        [r#"labels["kuma.io/display-name"]: is immutable, cannot be changed from "shown" to "other""#]
    );
    document["labels"] = json!({ "kuma.io/zone": "elsewhere" });
    assert_eq!(
        cp.put(path, &document).await.problems(),
        [r#"labels["kuma.io/zone"]: kuma.io/zone label should have default value"#]
    );
}

#[tokio::test]
async fn dataplane_that_violates_mesh_constraints_is_rejected() {
    let cp = TestControlPlane::start().await;
    let mesh = json!({
        "type": "Mesh", "name": "default",
        "constraints": { "dataplaneProxy": { "restrictions": [{ "tags": { "legacy": "*" } }] } },
    });
    assert_eq!(cp.put("/meshes/default", &mesh).await.status, StatusCode::OK);
    let mut proxy = dataplane("dp-1", "web");
    assert_eq!(cp.put("/meshes/default/dataplanes/dp-1", &proxy).await.status, StatusCode::CREATED);
    let stored = cp.get("/meshes/default/dataplanes/dp-1").await.json();
    assert_eq!(stored["networking"]["inbound"][0]["tags"]["kuma.io/zone"], "default");
    proxy["networking"]["inbound"][0]["tags"]["legacy"] = json!("yes");
    let refused = cp.put("/meshes/default/dataplanes/dp-1", &proxy).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.problems()[0].contains("cannot be a member of mesh \"default\""), "{}", refused.text);
}

#[tokio::test]
async fn concurrent_writers_of_one_resource_all_get_a_response() {
    let cp = TestControlPlane::start().await;
    let path = "/meshes/default/meshtimeouts/t1";
    let documents: Vec<Value> = (1..=20).map(|n| timeout("t1", &format!("{n}s"))).collect();
    let answers = futures_util::future::join_all(documents.iter().map(|document| cp.put(path, document))).await;
    let created = answers.iter().filter(|answer| answer.status == StatusCode::CREATED).count();
    assert_eq!(created, 1);
    assert!(answers.iter().all(|a| [StatusCode::OK, StatusCode::CREATED, StatusCode::CONFLICT].contains(&a.status)));
}
