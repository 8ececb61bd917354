//! Services move into a mesh whose proxies are trimmed, with callers that have no sidecar yet.

use std::{collections::BTreeSet, env, time::Duration};

use serde_json::json;

use super::{
    Guide, Participant, observing_mesh,
    participant::{self, name},
};
use crate::harness::{
    Generator, MESH, eventually, expect,
    network::{self, Machine},
};

const TEST: &str = "trimming::batches::batch_moves_in_while_others_stay_trimmed";
const BATCH: &[(&str, &str)] = &[("batch", "2")];

#[tokio::test(flavor = "multi_thread")]
async fn batch_moves_in_while_others_stay_trimmed() {
    if !Generator::obeyed().await && network::is_inside(TEST).await {
        moves_in().await;
    }
}

async fn moves_in() {
    let mesh = observing_mesh().await;
    let guide = Guide::open(&mesh);
    guide.write("Before you start", |text| text.replace("reachability: \"off\"", "reachability: \"on\""));
    guide.bash("kodiak apply -f mesh.yaml").unwrap();

    // The first batch is trimmed and enforced: 0 calls 1.
    let user = network::proxy_user(mesh.folder());
    let program = network::visible(&env::current_exe().unwrap(), &mesh.folder().join("test"));
    let start = async |number, labels| {
        let participant = Participant::start(&mesh, &user, number, (&program, TEST), labels).await;
        participant.sidecar.wait_until_ready().await;
        participant
    };
    let target = json!({ "kind": "Dataplane", "labels": { "app": name(1) } });
    let caller = json!({ "spiffeID": { "type": "Exact", "value": format!("spiffe://{MESH}/{}", name(0)) } });
    let spec = json!({ "targetRef": target, "rules": [{ "default": { "allow": [caller] } }] });
    mesh.put("MeshTrafficPermission", "first", &spec).await;
    let (mut zero, one) = (start(0, &[]).await, start(1, &[]).await);
    has(&zero, &[1]).await;
    has(&one, &[]).await;
    zero.application.visit(&[at(1)]).await;

    // 2 and 3 move in: 3 calls 1 and 2, and somebody outside of the mesh calls 2.
    guide.write("Bring services in by batches", |text| text.replace("default/orders", &format!("default/{}", name(3))));
    guide.run("Open a batch");
    let two = start(2, BATCH).await;
    let mut three = start(3, BATCH).await;
    let outside = Machine::without_redirection(100).await;
    let mut outsider = Generator::start(outside.network, &program, TEST);
    let inbound = two.inbound.to_string();
    eventually("the server answers without mTLS", async || outsider.try_once(&inbound).await).await;
    three.application.visit(&[at(1), at(2)]).await;
    eventually("calls of the batch, and the caller outside of the mesh, are observed", async || {
        let observed = guide.bash("kodiak permissions observed -o json").unwrap();
        let traffic: serde_json::Value = serde_json::from_str(&observed).unwrap();
        let edges = traffic["edges"].as_array().unwrap();
        let of_three = edges.iter().filter(|edge| edge["client"] == name(3).as_str()).count();
        let caller = &traffic["plaintext"][0];
        let is_known =
            caller["address"] == outside.address.to_string().as_str() && caller["port"] == two.inbound.port();
        expect(of_three == 2 && is_known && caller["server"] == name(2).as_str(), observed)
    })
    .await;
    has(&one, &[2, 3]).await;
    assert!(zero.services().await.contains(&name(1)));

    guide.run("Enforce a batch");
    eventually("a proxy of the batch has lost what it does not call", async || {
        let services = two.services().await;
        expect(!services.contains(&name(0)) && !services.contains(&name(1)), services)
    })
    .await;
    let refused = guide.bash("kodiak permissions check --delete meshtls/batch-2").unwrap_err();
    assert!(refused.contains(&outside.address.to_string()) && refused.contains("would be refused"), "{refused}");
    outsider.try_once(&inbound).await.expect("still permissive");

    // Nobody outside calls any more.
    tokio::time::sleep(Duration::from_secs(3)).await;
    eventually("the batch becomes strict", async || {
        guide.bash("kodiak permissions check --delete meshtls/batch-2 --since 3s")
    })
    .await;
    guide.run_with("Make a batch strict", |text| text.replace("--since 1h", "--since 1s"));
    for (participant, services) in [(&zero, &[1][..]), (&one, &[]), (&two, &[]), (&three, &[1, 2])] {
        has(participant, services).await;
    }
    eventually("the server refuses plain text", async || {
        let answer = outsider.try_once(&inbound).await;
        expect(answer.is_err(), answer)
    })
    .await;
    for participant in [&mut zero, &mut three] {
        participant.application.go_on(2).await;
        let counts = participant.application.counted().await;
        assert_eq!((counts.failed, counts.answered > 0), (0, true), "{counts:?}");
    }
}

fn at(number: u8) -> String {
    format!("{}.mesh:80", participant::name(number))
}

/// Until its proxy has clusters for exactly these services.
async fn has(participant: &Participant, services: &[u8]) {
    let expected: BTreeSet<String> = services.iter().map(|number| name(*number)).collect();
    eventually(&format!("{} has {expected:?}", participant.sidecar.dataplane.name), async || {
        let services = participant.services().await;
        expect(services == expected, services)
    })
    .await;
}
