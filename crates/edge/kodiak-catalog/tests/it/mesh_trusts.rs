//! Trusted certificates are checked when they are written, and the mode of a mesh with MeshIdentities.

use kodiak_crypto::certificate_pem;
use serde_json::json;

use crate::bed::{Bed, ca, problems};

/// Not the certificate of a CA.
const LEAF: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBczCCARigAwIBAgIUKbiczHbFlIqRYjimjR/DcuAI2SwwCgYIKoZIzj0EAwIw\n\
DzENMAsGA1UEAwwEbGVhZjAgFw0yNjExMTgyMDA2MTZaGA8yMTI2MTAyNTIwMDYx\n\
NlowDzENMAsGA1UEAwwEbGVhZjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKrb\n\
zWhiTxxYw7Q9y8x6UIzpjl13zh7D6sg3LdSddXB72u/aumA1rRlyPtk8csPUmUwg\n\
khkvUZwZAc1fNdgK0HujUDBOMB0GA1UdDgQWBBSsiv4pPKqRf/3UfDHD9cI5UgU8\n\
1zAfBgNVHSMEGDAWgBSsiv4pPKqRf/3UfDHD9cI5UgU81zAMBgNVHRMBAf8EAjAA\n\
MAoGCCqGSM49BAMCA0kAMEYCIQCL1lkyLwWR4h1LkqCn6ypt/+pVpLh5nKYvcOP2\n\
WQTIGgIhAJQ5/JQCreLrKc350S2hv+7B46C+2br7/0nFxu/UtXgg\n\
-----END CERTIFICATE-----\n";

async fn put(bed: &Bed, pems: &[&str]) -> Vec<String> {
    let bundles: Vec<_> = pems.iter().map(|pem| json!({ "type": "Pem", "pem": { "value": pem } })).collect();
    let spec = json!({ "spec": { "trustDomain": "demo.local", "caBundles": bundles } });
    match bed.put("MeshTrust", "trust", spec).await {
        Ok(_) => Vec::new(),
        refused @ Err(_) => problems(refused),
    }
}

#[tokio::test]
async fn bundles_must_be_certificates_of_cas() {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    let good = ca("good").cert_pem;
    let trailing = certificate_pem(&[kodiak_crypto::certificates(good.as_bytes()).unwrap()[0].as_ref(), &[0]].concat());
    let at = "spec.caBundles[1].pem.value";
    for (junk, expected) in [
        (certificate_pem(b"no certificate"), format!("{at}: certificate 0: not a valid x509 certificate")),
        (format!("{good}{}", certificate_pem(b"")), format!("{at}: certificate 1: not a valid x509 certificate")),
        (trailing, format!("{at}: certificate 0: not a valid x509 certificate")),
        (LEAF.to_owned(), format!("{at}: certificate 0: basic constraint 'CA' must be set to 'true'")),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n".to_owned(), format!("{at}: cannot be read: ")),
    ] {
        let found = put(&bed, &[&good, &junk]).await;
        assert!(found.len() == 1 && found[0].starts_with(&expected), "{junk}: {found:?}");
    }
    assert_eq!(put(&bed, &[&good, &ca("other").cert_pem]).await, [""; 0]);
}

#[tokio::test]
async fn mode_stays_exclusive_while_there_are_mesh_identities() {
    let bed = Bed::new().await;
    let mesh = |mode: &str| {
        json!({
            "type": "Mesh", "name": "demo", "skipCreatingInitialPolicies": ["*"], "meshServices": { "mode": mode },
        })
    };
    bed.put_mesh_document(mesh("Exclusive")).await.unwrap();
    let spec = json!({ "selector": { "dataplane": { "matchLabels": {} } } });
    bed.put("MeshIdentity", "web", json!({ "spec": spec })).await.unwrap();
    for mode in ["Everywhere", "ReachableBackends", "Disabled"] {
        let refused = problems(bed.put_mesh_document(mesh(mode)).await);
        assert!(
            refused.len() == 1
                && refused[0]
                    .starts_with("meshServices.mode: must stay Exclusive while the mesh has MeshIdentities (web)"),
            "{refused:?}"
        );
    }
    let mut without = mesh("Exclusive");
    without.as_object_mut().unwrap().remove("meshServices");
    assert_eq!(problems(bed.put_mesh_document(without).await).len(), 1, "the default is another mode");
    bed.put_mesh_document(mesh("Exclusive")).await.unwrap();
    bed.delete("MeshIdentity", "demo", "web").await.unwrap();
    bed.put_mesh_document(mesh("Everywhere")).await.unwrap();
}
