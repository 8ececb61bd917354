//! Inline keys of a Mesh are stored in a Secret, and nowhere else.

use base64::{Engine, prelude::BASE64_STANDARD};
use kodiak_model::ResourceKey;
use serde_json::json;

use crate::bed::{Bed, ca, problems, provided};

const SECRET: &str = "demo.ca-provided-key-ca-1";

#[tokio::test]
async fn mesh_key_is_in_the_secret_and_not_in_the_mesh() {
    let pair = ca("one");
    for inline in [
        json!({ "inlineString": pair.key_pem.expose() }),
        json!({ "inline_string": pair.key_pem.expose() }),
        json!({ "inline": BASE64_STANDARD.encode(pair.key_pem.expose()) }),
    ] {
        let bed = Bed::new().await;
        let mut backend = provided("ca-1", &pair);
        backend["conf"]["key"] = inline;
        let put = bed.put_mesh("ca-1", json!([backend])).await.unwrap();
        assert!(put.created && put.warnings.is_empty(), "{put:?}");
        let stored = bed.mesh();
        assert_eq!(stored["mtls"]["backends"][0]["conf"]["key"], json!({ "secret": SECRET }));
        assert_eq!(stored["mtls"]["backends"][0]["conf"]["cert"], json!({ "inlineString": pair.cert_pem }));
        let secret = bed.secret(SECRET).unwrap();
        assert_eq!(bed.secret_data(&secret), pair.key_pem.expose().as_bytes());
        assert_eq!(secret.owner, Some(ResourceKey::global("Mesh", "demo")));
    }
}

#[tokio::test]
async fn same_document_again_changes_nothing() {
    let pair = ca("one");
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([provided("ca-1", &pair)])).await.unwrap();
    let before = (bed.secret(SECRET), bed.0.store().snapshot().revision());
    let again = bed.put_mesh("ca-1", json!([provided("ca-1", &pair)])).await.unwrap();
    assert!(!again.changed && !again.created);
    let mut read_back = provided("ca-1", &pair);
    read_back["conf"]["key"] = json!({ "secret": SECRET });
    assert!(!bed.put_mesh("ca-1", json!([read_back])).await.unwrap().changed, "what was read can be written");
    assert_eq!((bed.secret(SECRET), bed.0.store().snapshot().revision()), before);
}

#[tokio::test]
async fn new_key_replaces_the_first_one_while_mtls_is_disabled() {
    let (one, two) = (ca("one"), ca("two"));
    let bed = Bed::new().await;
    bed.put_mesh("", json!([provided("ca-1", &one)])).await.unwrap();
    assert!(bed.put_mesh("", json!([provided("ca-1", &two)])).await.unwrap().changed);
    assert_eq!(bed.secret_data(&bed.secret(SECRET).unwrap()), two.key_pem.expose().as_bytes());
}

#[tokio::test]
async fn inline_text_beside_a_reference_is_dropped() {
    let (one, two) = (ca("one"), ca("two"));
    let bed = Bed::new().await;
    bed.put_mesh("", json!([provided("ca-1", &one)])).await.unwrap();
    let mut both = provided("ca-1", &one);
    both["conf"]["key"] = json!({ "secret": SECRET, "inlineString": two.key_pem.expose() });
    bed.put_mesh("", json!([both])).await.unwrap();
    assert_eq!(bed.mesh()["mtls"]["backends"][0]["conf"]["key"], json!({ "secret": SECRET }));
    assert_eq!(bed.secret_data(&bed.secret(SECRET).unwrap()), one.key_pem.expose().as_bytes());
}

#[tokio::test]
async fn secret_cannot_be_deleted_while_used_and_is_deleted_with_the_mesh() {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([provided("ca-1", &ca("one"))])).await.unwrap();
    let refused = problems(bed.delete("Secret", "demo", SECRET).await);
    assert!(refused[0].contains("is currently in use in Mesh \"demo\" in mTLS backend \"ca-1\""), "{refused:?}");
    bed.delete("Mesh", "", "demo").await.unwrap();
    assert_eq!(bed.secret(SECRET), None);
}

#[tokio::test]
async fn backend_name_must_be_valid_in_a_secret_name_for_an_inline_key() {
    let bed = Bed::new().await;
    let refused = problems(bed.put_mesh("", json!([provided("My CA", &ca("one"))])).await);
    assert!(
        refused[0].starts_with("mtls.backends[0].name: the inline key would be stored in the secret"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_key_that_is_not_base64_is_reported_once() {
    let bed = Bed::new().await;
    let mut backend = provided("ca-1", &ca("one"));
    backend["conf"]["key"] = json!({ "inline": "%" });
    let refused = problems(bed.put_mesh("", json!([backend])).await);
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].starts_with("mtls.backends[0].conf.key: could not load data: not base64"), "{refused:?}");
}

#[tokio::test]
async fn skip_validation_does_not_keep_the_key_in_the_mesh() {
    let bed = Bed::new().await;
    let write = async |key| {
        let backend = json!({ "name": "ca-1", "type": "provided", "conf": { "key": key } });
        let mesh = json!({
            "type": "Mesh", "name": "demo",
            "mtls": { "skipValidation": true, "backends": [backend] },
        });
        let kind = kodiak_kinds::kinds().by_name("Mesh").unwrap();
        bed.0.put(kodiak_catalog::Target { kind, mesh: "", name: "demo" }, mesh).await
    };
    let refused = problems(write(json!({ "inlineString": ["the key"] })).await);
    assert!(refused[0].starts_with("mtls.backends[0].conf: could not convert backend config"), "{refused:?}");
    let refused = problems(write(json!({ "inline": "%" })).await);
    assert!(refused[0].starts_with("mtls.backends[0].conf.key: could not load data: not base64"), "{refused:?}");
    write(json!({ "inlineString": "the key" })).await.unwrap();
    assert!(!bed.mesh().to_string().contains("the key"));
}
