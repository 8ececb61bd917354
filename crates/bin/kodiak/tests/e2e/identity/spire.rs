//! Certificates of a real SPIRE agent.

use kodiak_testkit::spire::Spire;
use serde_json::json;

use super::{announced, spiffe_ids};
use crate::harness::{Dataplane, Load, Mesh, Mtls, Service, eventually, expect, until_answered, workload_address};

const TRUST_DOMAIN: &str = "spire.local";

#[tokio::test(flavor = "multi_thread")]
async fn spire_agent_issues_the_certificates() {
    let Some(spire) = tokio::task::spawn_blocking(|| Spire::start(TRUST_DOMAIN)).await.unwrap() else { return };
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    mesh.set_services("Exclusive").await;
    mesh.permit_all().await;
    let socket = spire.agent_socket().to_str().unwrap().to_owned();
    let spire = tokio::task::spawn_blocking(move || {
        for workload in ["web", "api"] {
            spire.register(&format!("spiffe://{TRUST_DOMAIN}/workload/{workload}"), 60).unwrap();
        }
        spire
    });
    let spire = spire.await.unwrap();
    let workload = async |name: &str, peer: &str| {
        let service = Service::start(name, workload_address()).await;
        let dataplane = Dataplane::workload(name, &service, peer);
        let sidecar = mesh.start_sidecar(dataplane, &["--spire-socket", &socket]).await;
        sidecar.wait_until_ready().await;
        (service, sidecar)
    };
    let ((_web_service, web), (_api_service, api)) = tokio::join!(workload("web", "api"), workload("api", "web"));
    for sidecar in [&web, &api] {
        until_answered(sidecar.outbound()).await;
    }
    let load = Load::between([&web, &api]);
    let mut identity = announced(TRUST_DOMAIN);
    identity["provider"] = json!({ "type": "Spire", "spire": {} });
    mesh.put("MeshIdentity", "identity", &identity).await;
    for sidecar in [&web, &api] {
        let name = &sidecar.dataplane.name;
        eventually(&format!("{name} has a certificate of the agent"), async || {
            let ids = spiffe_ids(sidecar).await?;
            expect(ids == [format!("spiffe://{TRUST_DOMAIN}/workload/{name}")].into(), &ids)
        })
        .await;
        let issuer = "kri_mid_shop_default__identity_";
        eventually(&format!("the insight of {name} names the identity"), async || {
            let insight = mesh.insight(name).await;
            expect(insight["mTLS"]["issuedBackend"] == issuer, insight)
        })
        .await;
    }
    mesh.until_rolled_out(&["web", "api"]).await;
    load.go_on(100).await;
    let (answered, failed, failures) = load.counted();
    println!("flow SPIRE: {answered} requests answered, {failed} failed {failures:?}");
    load.end().await;
    drop(spire);
}
