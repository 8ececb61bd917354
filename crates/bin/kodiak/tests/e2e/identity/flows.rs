//! Flows between identities, under load in both directions. No request may fail.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Bed, LEGACY, announced, generated, leaves, own_ca, spiffe_ids};
use crate::harness::{Load, MESH, Mtls, eventually, expect, path};

fn mesh_ca() -> Mtls {
    Mtls::Strict(vec![Mtls::builtin("ca-1")])
}

/// Ends the load after more requests, and prints the row of the table of flows.
async fn end(flow: &str, load: Load) {
    load.go_on(100).await;
    let (answered, failed, failures) = load.counted();
    println!("flow {flow}: {answered} requests answered, {failed} failed {failures:?}");
    load.end().await;
}

/// (a) With the preparation of the provider-less MeshIdentity, as Kuma's users know it.
#[tokio::test(flavor = "multi_thread")]
async fn moves_from_the_mesh_ca_to_an_identity_with_preparation() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    load.go_on(30).await;
    bed.identity("identity-spiffe-only", &announced("prepared.local")).await;
    bed.until_expected("spiffe://prepared.local/workload/api").await;
    bed.until_condition("identity-spiffe-only", "SpiffeIDProvider", "True", "SpiffeIDProvided").await;
    bed.until_condition("identity-spiffe-only", "Ready", "False", "PartiallyReady").await;
    let mut unselected = generated("prepared.local");
    unselected["selector"] = json!({});
    bed.identity("identity", &unselected).await;
    bed.until_condition("identity", "Ready", "True", "Ready").await;
    load.go_on(30).await;
    bed.identity("identity", &generated("prepared.local")).await;
    bed.until_issued("prepared.local").await;
    load.go_on(30).await;
    bed.mesh.delete("MeshIdentity", "identity-spiffe-only").await;
    load.go_on(30).await;
    bed.until_issued("prepared.local").await;
    end("a", load).await;
}

/// (b) A CA of the user that another one signed, and a MeshTrust written by hand.
#[tokio::test(flavor = "multi_thread")]
async fn moves_to_an_identity_with_the_users_own_ca() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    let ca = own_ca("company.local");
    bed.identity("identity-spiffe-only", &announced("company.local")).await;
    bed.mesh.secret("company-ca", &ca.chain).await;
    bed.mesh.secret("company-key", &ca.key).await;
    let source = |name: &str| json!({ "type": "Secret", "secretRef": { "kind": "Secret", "name": name } });
    let mut identity = announced("company.local");
    identity["provider"] = json!({ "type": "Bundled", "bundled": {
        "meshTrustCreation": "Disabled", "insecureAllowSelfSigned": false,
        "ca": { "certificate": source("company-ca"), "privateKey": source("company-key") },
    }});
    bed.identity("identity", &identity).await;
    // Nobody trusts the CA yet, so nobody gets its certificates.
    bed.until_condition("identity", "Trusted", "False", "NoMeshTrust").await;
    load.go_on(30).await;
    let bundles = json!([{ "type": "Pem", "pem": { "value": ca.root } }]);
    bed.mesh.put("MeshTrust", "company", &json!({ "trustDomain": "company.local", "caBundles": bundles })).await;
    bed.until_issued("company.local").await;
    bed.mesh.delete("MeshIdentity", "identity-spiffe-only").await;
    end("b", load).await;
}

/// (c) Without any preparation: Kuma loses requests here.
#[tokio::test(flavor = "multi_thread")]
async fn moves_from_the_mesh_ca_to_an_identity_without_preparation() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    load.go_on(30).await;
    bed.identity("identity", &generated("new.local")).await;
    bed.until_issued("new.local").await;
    // The backend of the mesh is not needed any more.
    bed.mesh.set_mtls(Mtls::Off).await;
    bed.until_settled().await;
    load.go_on(50).await;
    bed.until_issued("new.local").await;
    end("c", load).await;
}

/// (d) The trust domain of a MeshIdentity is edited, (e) and then the MeshIdentity is deleted.
#[tokio::test(flavor = "multi_thread")]
async fn moves_to_another_trust_domain_and_back_to_the_mesh_ca() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    bed.identity("identity", &generated("old.local")).await;
    bed.until_issued("old.local").await;
    let load = bed.load();
    load.go_on(30).await;
    bed.identity("identity", &generated("new.local")).await;
    bed.until_issued("new.local").await;
    load.go_on(50).await;
    bed.mesh.delete("MeshIdentity", "identity").await;
    bed.until_issued(LEGACY).await;
    eventually("nobody expects the SPIFFE IDs any more", async || {
        let service = bed.mesh.mesh_service("api").await.unwrap_or_default();
        expect(!service["spec"]["identities"].to_string().contains("SpiffeID"), service)
    })
    .await;
    end("d, e", load).await;
}

/// (f) A new CA under the same MeshIdentity, (g) whose certificates live for a minute and so change all the time.
#[tokio::test(flavor = "multi_thread")]
async fn replaces_the_ca_of_short_lived_certificates() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let mut identity = generated("rotating.local");
    identity["provider"]["bundled"]["certificateParameters"] = json!({ "expiry": "6s" });
    bed.identity("identity", &identity).await;
    bed.until_issued("rotating.local").await;
    let load = bed.load();
    let mut seen = BTreeSet::new();
    let mut rotated = async |count: usize| {
        eventually("certificates were replaced", async || {
            seen.extend(leaves(&bed.web).await?.iter().map(|leaf| leaf["serial_number"].to_string()));
            expect(seen.len() >= count, &seen)
        })
        .await;
    };
    rotated(3).await;
    for secret in ["identity-root-ca", "identity-private-key"] {
        bed.mesh.delete("Secret", secret).await;
    }
    eventually("the MeshTrust has both CAs", async || {
        let trust = bed.mesh.control_plane.get(&format!("/meshes/{MESH}/meshtrusts/identity")).await.json();
        expect(trust["spec"]["caBundles"].as_array().is_some_and(|bundles| bundles.len() == 2), trust)
    })
    .await;
    bed.until_settled().await;
    rotated(6).await;
    end("f, g", load).await;
}

/// (h) Two MeshIdentities that select the same proxies; the second one created has the first name.
#[tokio::test(flavor = "multi_thread")]
async fn two_identities_for_the_same_proxies_take_turns_by_name() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    bed.identity("b-identity", &generated("b.local")).await;
    bed.until_issued("b.local").await;
    bed.identity("c-identity", &generated("c.local")).await;
    bed.until_condition("c-identity", "Ready", "True", "Ready").await;
    bed.until_issued("b.local").await;
    bed.identity("a-identity", &generated("a.local")).await;
    bed.until_issued("a.local").await;
    load.go_on(30).await;
    bed.mesh.delete("MeshIdentity", "a-identity").await;
    bed.until_issued("b.local").await;
    end("h", load).await;
}

/// (i) The control plane is killed again and again while the mesh moves.
#[tokio::test(flavor = "multi_thread")]
async fn control_plane_is_killed_between_steps() {
    let Some(mut bed) = Bed::start(mesh_ca()).await else { return };
    let load = bed.load();
    let mut steps = BTreeSet::from([bed.step().await]);
    bed.identity("identity", &generated("killed.local")).await;
    bed = bed.crash_until_issued("killed.local", &mut steps).await;
    bed.until_issued("killed.local").await;
    bed.mesh.delete("MeshIdentity", "identity").await;
    bed = bed.crash_until_issued(LEGACY, &mut steps).await;
    bed.until_issued(LEGACY).await;
    assert!(steps.len() > 3, "killed at few steps: {steps:#?}");
    println!("killed at each of {} steps: {steps:#?}", steps.len() - 1);
    end("i", load).await;
}

/// A mesh without a backend: the identity turns mutual TLS on, and its deletion turns it off.
#[tokio::test(flavor = "multi_thread")]
async fn identity_alone_turns_mutual_tls_on_and_off() {
    let Some(bed) = Bed::start(Mtls::Off).await else { return };
    let load = bed.load();
    load.go_on(30).await;
    bed.identity("identity", &generated("only.local")).await;
    bed.until_issued("only.local").await;
    assert!(bed.step().await.starts_with("accept=mtls call=mtls identities="), "{}", bed.step().await);
    load.go_on(50).await;
    bed.mesh.delete("MeshIdentity", "identity").await;
    eventually("nobody has a certificate", async || {
        let leaves = leaves(&bed.web).await?;
        expect(leaves.is_empty(), leaves)
    })
    .await;
    end("without a backend", load).await;
}

/// A user changes the labels that SPIFFE IDs follow from, and again while the first change is on the way.
#[tokio::test(flavor = "multi_thread")]
async fn changed_labels_move_servers_and_clients_in_order() {
    let Some(bed) = Bed::start(mesh_ca()).await else { return };
    bed.identity("identity", &generated("labels.local")).await;
    bed.until_issued("labels.local").await;
    let load = bed.load();
    load.go_on(30).await;
    let relabel = async |workload: &str| {
        let path = path("Dataplane", "api");
        let mut dataplane = bed.mesh.control_plane.get(&path).await.json();
        dataplane["labels"]["kuma.io/workload"] = json!(workload);
        bed.mesh.control_plane.put(&path, &dataplane).await;
    };
    let until_presented = async |workload: &str| {
        let id = format!("spiffe://labels.local/workload/{workload}");
        eventually(&format!("api presents {id}"), async || {
            let ids = spiffe_ids(&bed.api).await?;
            expect(ids == BTreeSet::from([id.clone()]), ids)
        })
        .await;
        bed.until_settled().await;
    };
    relabel("backend").await;
    until_presented("backend").await;
    relabel("storage").await;
    relabel("orders").await;
    until_presented("orders").await;
    for number in 0..5 {
        relabel(&format!("orders-{number}")).await;
        load.go_on(10).await;
    }
    until_presented("orders-4").await;
    eventually("nobody expects the SPIFFE IDs before", async || {
        let service = bed.mesh.mesh_service("api").await.unwrap_or_default();
        let identities = service["spec"]["identities"].to_string();
        expect(identities.contains("workload/orders-4") && !identities.contains("workload/orders-3"), service)
    })
    .await;
    end("changed labels", load).await;
}
