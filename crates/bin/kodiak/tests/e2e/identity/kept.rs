//! Long-lived TCP connections, while trust, expected SPIFFE IDs and certificates change.

use serde_json::json;

use super::{Bed, LEGACY, announced, generated, root};
use crate::harness::{Kept, Mtls, Sidecar};

/// Changes of listeners, whose old filter chains would drain, and of clusters.
async fn changes(sidecar: &Sidecar) -> Vec<String> {
    let names =
        "^(listener_manager.listener_(modified|in_place_updated|removed)|cluster_manager.cluster_(modified|removed))$";
    let mut counted = sidecar.stats(names).await;
    counted.sort();
    assert_eq!(counted.len(), 5, "{counted:?}");
    counted
}

/// The flow of a user who prepares a MeshIdentity with one that has no provider. A MeshTrust comes and goes, the trust
/// domain moves, and the CA of the mesh goes and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn connections_live_through_every_change_of_trust() {
    let ca = || Mtls::Strict(vec![Mtls::builtin("ca-1")]);
    let Some(bed) = Bed::start(ca()).await else { return };
    bed.until_settled().await;
    let load = bed.load();
    load.go_on(30).await;
    let mut kept = Kept::open([bed.web.outbound_tcp(), bed.api.outbound_tcp()]).await;
    let before = [changes(&bed.web).await, changes(&bed.api).await];
    let mut check = async |after: &str| {
        bed.until_settled().await;
        load.go_on(30).await;
        assert_eq!([changes(&bed.web).await, changes(&bed.api).await], before, "after {after}");
        kept.check(after).await;
    };
    let pem = root("partner.local").cert_pem;
    let bundles = json!([{ "type": "Pem", "pem": { "value": pem } }]);
    bed.mesh.put("MeshTrust", "partner", &json!({ "trustDomain": "partner.local", "caBundles": bundles })).await;
    bed.until_trusted("partner.local").await;
    check("a MeshTrust came").await;
    bed.identity("identity-spiffe-only", &announced("prepared.local")).await;
    bed.until_expected("spiffe://prepared.local/workload/api").await;
    check("clients expect the SPIFFE ID").await;
    let mut unselected = generated("prepared.local");
    unselected["selector"] = json!({});
    bed.identity("identity", &unselected).await;
    bed.until_trusted("prepared.local").await;
    check("the CA of the MeshIdentity is trusted").await;
    bed.identity("identity", &generated("prepared.local")).await;
    bed.until_issued("prepared.local").await;
    check("certificates of the MeshIdentity came").await;
    bed.mesh.delete("MeshIdentity", "identity-spiffe-only").await;
    check("the preparation was removed").await;
    bed.mesh.set_mtls(Mtls::Off).await;
    check("the CA of the mesh went off").await;
    bed.mesh.set_mtls(ca()).await;
    check("the CA of the mesh came back").await;
    bed.identity("identity", &generated("moved.local")).await;
    bed.until_issued("moved.local").await;
    check("the trust domain moved").await;
    bed.mesh.delete("MeshIdentity", "identity").await;
    bed.until_issued(LEGACY).await;
    check("certificates of the mesh came back").await;
    bed.mesh.delete("MeshTrust", "partner").await;
    check("the MeshTrust went").await;
    load.end().await;
}
