//! A control plane crashes and restarts while its proxies keep serving.

use std::collections::BTreeSet;

use crate::harness::{Load, Mesh, Mtls, Sidecar, eventually, expect};

/// Envoy's counters of accepted updates.
const TAKEN: &str =
    "(cds|lds|eds|rds|sds).*update_success$|ssl_context_update_by_sds$|listener_modified$|cluster_modified$";

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_is_killed_and_restarted_under_load() {
    let Some(mesh) = Mesh::start(Mtls::Strict(vec![Mtls::builtin("ca-1")])).await else { return };
    mesh.permit_all().await;
    let (_service, backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    mesh.until_acknowledged(&["client", "backend-1"], "accept=mtls call=mtls signer=ca-1 trust=ca-1").await;
    let load = Load::on(&client);
    let before = [taken(&backend).await, taken(&client).await];

    let mesh = mesh.crash(async || load.go_on(50).await).await;
    eventually("both proxies are back", async || {
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 2, proxies)
    })
    .await;
    // One stream per proxy; the previous one is closed.
    for proxy in ["client", "backend-1"] {
        eventually(&format!("{proxy} is connected once"), async || {
            let insight = mesh.insight(proxy).await;
            let subscriptions = insight["subscriptions"].as_array().cloned().unwrap_or_default();
            let open = subscriptions.iter().filter(|each| each.get("disconnectTime").is_none()).count();
            let instances: BTreeSet<_> =
                subscriptions.iter().map(|each| each["controlPlaneInstanceId"].to_string()).collect();
            expect(open == 1 && instances.len() == 2, insight)
        })
        .await;
        let insight = mesh.insight(proxy).await;
        assert_eq!(insight["mTLS"]["issuedBackend"], "ca-1", "{insight}");
    }
    load.go_on(100).await;
    load.end().await;
    assert_eq!(mesh.control_plane.metric("kodiak_xds_sent_bytes_total").await, 0, "nothing is sent again");
    assert_eq!([taken(&backend).await, taken(&client).await], before, "and Envoy has seen nothing new");

    // The proxy still receives updates: the next change arrives.
    mesh.forbid().await;
    eventually("a change after the restart takes effect", async || {
        let answer = client.call().await?;
        expect(answer.status == hyper::StatusCode::FORBIDDEN, answer)
    })
    .await;
    assert!(mesh.control_plane.metric("kodiak_xds_sent_bytes_total").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_stays_online_over_a_restart() {
    let Some(mesh) = Mesh::start(Mtls::Off).await else { return };
    let (_service, _backend) = mesh.backend("backend-1").await;
    let client = mesh.client().await;
    for proxy in ["client", "backend-1"] {
        eventually("it is known that the proxy is there", async || {
            let insight = mesh.insight(proxy).await;
            expect(insight["subscriptions"][0].get("connectTime").is_some(), insight)
        })
        .await;
    }
    let mesh = mesh.crash(async || ()).await;
    // No insight read until the proxies reconnect shows one of them offline.
    eventually("both proxies are back", async || {
        for proxy in ["client", "backend-1"] {
            let insight = mesh.insight(proxy).await;
            let last = insight["subscriptions"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
            assert!(last.get("connectTime").is_some() && last.get("disconnectTime").is_none(), "{insight}");
        }
        let proxies = mesh.control_plane.metric("kodiak_xds_proxies").await;
        expect(proxies == 2, proxies)
    })
    .await;
    assert!(client.call().await.unwrap().status.is_success());
}

async fn taken(sidecar: &Sidecar) -> Vec<String> {
    sidecar.stats(TAKEN).await
}
