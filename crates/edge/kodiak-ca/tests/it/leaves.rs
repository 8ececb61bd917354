//! Certificates of proxies: the same everywhere and until they are to be renewed.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kodiak_ca::MeshCas;
use kodiak_catalog::{FileSources, IdentityCa, Target};
use kodiak_crypto::{CaPair, KeyPair, certificates, check_ca_pair, server_config};
use kodiak_engine::{Identities as _, Leaf, LeafIssuer, LeafRequest};
use kodiak_model::{ProxyKey, kinds};
use kodiak_rollout::AppliedBackend;
use serde_json::json;

use crate::bed::{Bed, content_of, issuer};

const URI: &str = "spiffe://demo/web";

/// Seconds that leaves are valid before they are issued.
const CLOCK_SKEW: i64 = 2 * 60 * 60;

fn request(name: &str, backend: &str) -> LeafRequest {
    LeafRequest {
        proxy: ProxyKey::new("demo", name),
        issuer: LeafIssuer::Backend(backend.into()),
        uris: Arc::new([URI.to_owned(), "kuma://team/a".to_owned()]),
    }
}

fn builtin(name: &str) -> serde_json::Value {
    json!({ "name": name, "type": "builtin" })
}

/// With Dataplanes that have no mesh yet.
async fn new_bed() -> Bed {
    bed_reading(FileSources::default()).await
}

async fn bed_reading(files: FileSources) -> Bed {
    let bed = Bed::reading(files).await;
    for name in ["web-1", "web-2"] {
        bed.store_dataplane(name).await;
    }
    bed
}

async fn bed() -> Bed {
    let bed = new_bed().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await;
    bed
}

/// A moment within the validity of new CAs.
fn soon() -> Timestamp {
    Timestamp::now() + SignedDuration::from_hours(48)
}

fn leaf(mesh_cas: &MeshCas, name: &str, now: Timestamp) -> Arc<Leaf> {
    mesh_cas.leaf(&request(name, "ca-1"), now).unwrap()
}

#[tokio::test]
async fn restart_changes_no_leaf() {
    let bed = bed().await;
    let now = soon();
    let (one, other) = (leaf(&bed.mesh_cas, "web-1", now), leaf(&bed.another(), "web-1", now));
    assert!(one.identity == other.identity);
    assert_eq!((one.version, one.not_after, one.renew_at), (other.version, other.not_after, other.renew_at));
    assert!(Arc::ptr_eq(&one, &leaf(&bed.mesh_cas.clone(), "web-1", now)), "asking again costs nothing");
}

#[tokio::test]
async fn leaf_is_the_same_until_its_renewal() {
    let bed = bed().await;
    let now = soon();
    let first = leaf(&bed.mesh_cas, "web-1", now);
    let last = leaf(&bed.mesh_cas, "web-1", first.renew_at - SignedDuration::from_secs(1));
    assert!(Arc::ptr_eq(&first, &last));
    let next = leaf(&bed.mesh_cas, "web-1", first.renew_at);
    assert!(next.identity.key != first.identity.key && next.version != first.version);
    assert_eq!(next.not_after, first.not_after + SignedDuration::from_hours(12));
    assert!(leaf(&bed.another(), "web-1", now).identity == first.identity, "what was before can be made again");
}

#[tokio::test]
async fn leaf_has_the_spiffe_ids_and_validity_of_the_proxy() {
    let bed = bed().await;
    let now = soon();
    let leaf = leaf(&bed.mesh_cas, "web-1", now);
    let content = content_of(&leaf.identity.certificate);
    assert_eq!(content.names, [URI, "kuma://team/a"]);
    assert_eq!(content.issuer, "O=Kodiak, OU=Mesh, CN=demo");
    assert!(content.for_servers && content.for_clients);
    assert_eq!(content.not_after, leaf.not_after.as_second());
    assert_eq!(content.not_after - content.not_before, 24 * 3600 + CLOCK_SKEW);
    assert_eq!(leaf.not_after.as_second() - leaf.renew_at.as_second(), 12 * 3600);
    assert!(content.not_before < now.as_second() && now < leaf.renew_at);
    server_config(leaf.identity.certificate.as_bytes(), leaf.identity.key.as_bytes(), None).unwrap();
}

#[tokio::test]
async fn lifetime_is_that_of_the_backend() {
    let bed = new_bed().await;
    let backend = |expiration: &str| json!([{ "name": "ca-1", "type": "builtin", "dpCert": { "rotation": { "expiration": expiration } } }]);
    for (expiration, seconds) in [("1h", 3600), ("0", 24 * 3600), ("5ms", 2), ("2d", 48 * 3600)] {
        bed.put_mesh("ca-1", backend(expiration)).await;
        let content = content_of(&leaf(&bed.mesh_cas, "web-1", soon()).identity.certificate);
        assert_eq!(content.not_after - content.not_before, seconds + CLOCK_SKEW, "{expiration}");
    }
}

#[tokio::test]
async fn other_proxies_names_and_cas_have_other_leaves() {
    let bed = new_bed().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1"), builtin("ca-2")])).await;
    let mut renamed = request("web-1", "ca-1");
    renamed.uris = Arc::new([URI.to_owned()]);
    let now = soon();
    let requests = [request("web-1", "ca-1"), request("web-2", "ca-1"), request("web-1", "ca-2"), renamed];
    let leaves: Vec<_> = requests.iter().map(|request| bed.mesh_cas.leaf(request, now).unwrap()).collect();
    for (index, one) in leaves.iter().enumerate() {
        for other in &leaves[index + 1..] {
            assert!(one.version != other.version && one.identity.certificate != other.identity.certificate, "{index}");
            assert!(one.identity.key != other.identity.key, "two identities have one key: {index}");
        }
    }
    let (first, second) = (bed.mesh_cas.roots("demo", &"ca-1".into()), bed.mesh_cas.roots("demo", &"ca-2".into()));
    assert!(first.unwrap() != second.unwrap());
}

#[tokio::test]
async fn recreated_dataplane_has_another_key() {
    let bed = bed().await;
    let now = soon();
    let first = leaf(&bed.mesh_cas, "web-1", now);
    bed.catalog.delete(Target { kind: &kinds::dataplane::KIND, mesh: "demo", name: "web-1" }).await.unwrap();
    let error = bed.mesh_cas.leaf(&request("web-1", "ca-1"), now).unwrap_err();
    assert!(error.contains("does not exist"), "{error}");
    bed.store_dataplane("web-1").await;
    let second = leaf(&bed.mesh_cas, "web-1", now);
    assert!(first.identity.key != second.identity.key && first.version != second.version);
    assert!(leaf(&bed.another(), "web-1", now).identity == second.identity, "a restart changes nothing");
}

#[tokio::test]
async fn only_a_changed_ca_reissues_leaves() {
    let (one, two) = (issuer("one"), issuer("two"));
    let bed = new_bed().await;
    let provided = |pair: &kodiak_crypto::KeyPair| {
        let (cert, key) = (json!({ "inlineString": pair.cert_pem }), json!({ "inlineString": pair.key_pem.expose() }));
        json!([{ "name": "ca-1", "type": "provided", "conf": { "cert": cert, "key": key } }])
    };
    let now = soon();
    bed.put_mesh("", provided(&one)).await;
    let first = leaf(&bed.mesh_cas, "web-1", now);
    bed.put_mesh("ca-1", provided(&one)).await;
    assert!(Arc::ptr_eq(&first, &leaf(&bed.mesh_cas, "web-1", now)));
    bed.put_mesh("", provided(&one)).await;
    bed.put_mesh("", provided(&two)).await;
    let second = leaf(&bed.mesh_cas, "web-1", now);
    assert_eq!(content_of(&second.identity.certificate).issuer, "O=Kodiak, OU=Mesh, CN=two");
    assert_ne!(first.version, second.version);
}

#[tokio::test]
async fn ca_in_files_is_read_again_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let write = |common_name: &str| {
        let pair = issuer(common_name);
        std::fs::write(path("cert"), &pair.cert_pem).unwrap();
        std::fs::write(path("key"), pair.key_pem.expose()).unwrap();
    };
    write("one");
    let bed = bed_reading(FileSources::below(folder.path())).await;
    let conf = json!({ "cert": { "file": path("cert") }, "key": { "file": path("key") } });
    bed.put_mesh("ca-1", json!([{ "name": "ca-1", "type": "provided", "conf": conf }])).await;
    let issuer = || content_of(&leaf(&bed.mesh_cas, "web-1", soon()).identity.certificate).issuer;
    assert_eq!(issuer(), "O=Kodiak, OU=Mesh, CN=one");
    write("another");
    assert_eq!(issuer(), "O=Kodiak, OU=Mesh, CN=another");
}

#[tokio::test]
async fn roots_are_certificates_without_the_key() {
    let (one, two) = (issuer("one"), issuer("two"));
    let bed = new_bed().await;
    let cert = format!("{}{}{}", one.cert_pem, one.key_pem.expose(), two.cert_pem);
    let conf = json!({ "cert": { "inlineString": cert }, "key": { "inlineString": one.key_pem.expose() } });
    bed.put_mesh("ca-1", json!([{ "name": "ca-1", "type": "provided", "conf": conf }])).await;
    let roots = bed.mesh_cas.roots("demo", &"ca-1".into()).unwrap();
    assert!(!roots.contains("PRIVATE KEY"));
    assert_eq!(certificates(roots.as_bytes()).unwrap().len(), 2);
    assert!(check_ca_pair(roots.as_bytes(), one.key_pem.expose().as_bytes(), Timestamp::now()).is_empty());
    assert_eq!(format!("{:?}", bed.mesh_cas), "MeshCas(***)");
}

#[tokio::test]
async fn missing_parts_are_named() {
    let bed = bed().await;
    let now = soon();
    let error = |request: &LeafRequest, now| bed.mesh_cas.leaf(request, now).unwrap_err();
    let mut elsewhere = request("web-1", "ca-1");
    elsewhere.proxy = ProxyKey::new("nowhere", "web-1");
    assert_eq!(error(&elsewhere, now), "mesh \"nowhere\" does not exist; apply it first");
    assert_eq!(
        error(&request("web-1", "ca-9"), now),
        "mTLS backend \"ca-9\" of mesh \"demo\" is not usable: it is not listed; add it to mtls.backends"
    );
    let mut nameless = request("web-1", "ca-1");
    nameless.uris = Arc::new([]);
    assert!(error(&nameless, now).contains("failed to issue a certificate for proxy"), "{}", error(&nameless, now));
    let late = now + SignedDuration::from_hours(11 * 366 * 24);
    assert!(error(&request("web-1", "ca-1"), late).contains("the CA expired at"));
    let early = now - SignedDuration::from_hours(1000);
    assert!(error(&request("web-1", "ca-1"), early).contains("the CA is not valid before"));
}

#[tokio::test]
async fn unlisted_backend_signs_until_the_last_step_of_disabling_mtls() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = issuer("ours");
    std::fs::write(path("cert"), &pair.cert_pem).unwrap();
    std::fs::write(path("key"), pair.key_pem.expose()).unwrap();
    let conf = json!({ "cert": { "file": path("cert") }, "key": { "file": path("key") } });
    let builtin = json!({ "name": "ca-1", "type": "builtin" });
    let bed = bed_reading(FileSources::below(folder.path())).await;
    bed.put_mesh("ca-1", json!([builtin, { "name": "ca-2", "type": "provided", "conf": conf }])).await;
    let now = soon();
    let before = ["ca-1", "ca-2"].map(|backend| bed.mesh_cas.leaf(&request("web-1", backend), now).unwrap());
    bed.put_mesh("", json!([])).await;
    let after = ["ca-1", "ca-2"].map(|backend| bed.mesh_cas.leaf(&request("web-1", backend), now).unwrap());
    assert!(before.iter().zip(&after).all(|(before, after)| before.version == after.version));
    let restarted = bed.another().with_files(FileSources::below(folder.path()));
    assert_eq!(restarted.leaf(&request("web-1", "ca-1"), now).unwrap().version, before[0].version);
    let error = restarted.leaf(&request("web-1", "ca-2"), now).unwrap_err();
    assert!(error.contains("it is not listed; add it to mtls.backends"), "{error}");
}

/// While the two Secrets of a CA are replaced, one after the other.
#[tokio::test]
async fn copy_of_a_ca_signs_while_its_secrets_have_other_content() {
    let bed = new_bed().await;
    let (one, two) = (issuer("one"), issuer("two"));
    bed.put_mesh("", json!([])).await;
    bed.put_secret("cert", &one.cert_pem).await;
    bed.put_secret("key", one.key_pem.expose()).await;
    let conf = json!({ "cert": { "secret": "cert" }, "key": { "secret": "key" } });
    bed.put_mesh("ca-1", json!([{ "name": "ca-1", "type": "provided", "conf": conf }])).await;
    let of = |pair: &KeyPair| {
        let ca = CaPair::from_pem(pair.cert_pem.as_bytes(), pair.key_pem.expose().as_bytes()).unwrap();
        AppliedBackend { name: "ca-1".into(), ca: Some(ca.bundle_fingerprint().into()) }
    };
    let ask = |mesh_cas: &MeshCas, backend: AppliedBackend| {
        let request = LeafRequest { issuer: LeafIssuer::Backend(backend.clone()), ..request("web-1", "ca-1") };
        Ok::<_, String>((mesh_cas.leaf(&request, soon())?.version, mesh_cas.roots("demo", &backend)?))
    };
    let first = ask(&bed.mesh_cas, of(&one)).unwrap();
    bed.put_secret("cert", &two.cert_pem).await;
    assert!(ask(&bed.mesh_cas, of(&one)).is_err(), "there is no copy yet");
    bed.put_secret("cert", &one.cert_pem).await;
    let fingerprint = of(&one).ca.unwrap();
    let [cert, key] = [&one.cert_pem, one.key_pem.expose()].map(|pem| pem.as_bytes().to_vec());
    let copy = bed.catalog.copy_identity_ca("demo", &IdentityCa { cert, key, is_stored: true }, &fingerprint);
    bed.catalog.store().commit(copy.into()).await.unwrap();
    for [half, content] in [["cert", &two.cert_pem], ["key", two.key_pem.expose()]] {
        bed.put_secret(half, content).await;
        for mesh_cas in [&bed.mesh_cas, &bed.another()] {
            assert_eq!(ask(mesh_cas, of(&one)).unwrap(), first, "after {half}");
        }
    }
    let second = ask(&bed.mesh_cas, of(&two)).unwrap();
    assert!(second.0 != first.0 && second.1 != first.1, "what was written is another CA");
}

#[tokio::test]
async fn removed_backend_does_not_sign() {
    let bed = bed().await;
    leaf(&bed.mesh_cas, "web-1", soon());
    bed.catalog.delete(Target { kind: &kinds::mesh::KIND, mesh: "", name: "demo" }).await.unwrap();
    bed.mesh_cas.leaf(&request("web-1", "ca-1"), soon()).unwrap_err();
    bed.mesh_cas.roots("demo", &"ca-1".into()).unwrap_err();
}

#[tokio::test]
async fn file_stored_before_the_rule_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = issuer("ours");
    std::fs::write(path("cert"), &pair.cert_pem).unwrap();
    std::fs::write(path("key"), pair.key_pem.expose()).unwrap();
    let bed = bed_reading(FileSources::below(folder.path())).await;
    let conf = json!({ "cert": { "file": path("cert") }, "key": { "file": path("key") } });
    bed.put_mesh("ca-1", json!([{ "name": "ca-1", "type": "provided", "conf": conf }])).await;
    leaf(&bed.mesh_cas, "web-1", soon());
    let error = bed.another().leaf(&request("web-1", "ca-1"), soon()).unwrap_err();
    assert!(error.contains("set") && error.contains("general.dataSourceFolder"), "{error}");
}

#[tokio::test]
async fn ca_that_cannot_be_read_any_more_stays_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let pair = issuer("ours");
    std::fs::write(path("cert"), &pair.cert_pem).unwrap();
    std::fs::write(path("key"), pair.key_pem.expose()).unwrap();
    let bed = bed_reading(FileSources::below(folder.path())).await;
    let conf = json!({ "cert": { "file": path("cert") }, "key": { "file": path("key") } });
    bed.put_mesh("ca-1", json!([{ "name": "ca-1", "type": "provided", "conf": conf }])).await;
    let roots = bed.mesh_cas.roots("demo", &"ca-1".into()).unwrap();
    std::fs::remove_file(path("key")).unwrap();
    bed.mesh_cas.leaf(&request("web-1", "ca-1"), soon()).unwrap_err();
    assert_eq!(bed.mesh_cas.roots("demo", &"ca-1".into()).unwrap(), roots, "certificates of it are in use");
}
