//! A user's change of labels that gives a proxy another SPIFFE ID is stored together with the step that keeps the one before.

use kodiak_catalog::{Author, Target, kept_labels};
use kodiak_model::{ProxyKey, ResourceKey, kinds::dataplane::Admission};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers, Rollout, RolloutRecord};
use kodiak_store::{Expect, Write};
use kodiak_world::document::{self, ROLLOUT};
use serde_json::{Value, json};

use crate::bed::{Bed, builtin, kind};

/// A mesh at the end of its rollout to a MeshIdentity.
async fn bed() -> Bed {
    let bed = Bed::new().await;
    bed.put_mesh("ca-1", json!([builtin("ca-1")])).await.unwrap();
    let identity = AppliedIdentity {
        trust_domain: "td".into(),
        path: Some("/workload/{{ .Workload }}".into()),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    };
    let issuers = Issuers { identities: vec![identity.into()], ..Issuers::default() };
    let step = Rollout { issuers, call: true, ..Rollout::default() };
    let record = serde_json::to_value(RolloutRecord { step, behind: vec![Rollout::default()], ..Default::default() });
    let write = Write::Put {
        key: document::key("demo", ROLLOUT),
        spec: record.unwrap().to_string().into(),
        labels: std::collections::BTreeMap::new(),
        owner: Some(ResourceKey::global("Mesh", "demo")),
        expect: Expect::Absent,
    };
    bed.0.store().commit(write.into()).await.unwrap();
    bed
}

fn dataplane(workload: &str) -> Value {
    let inbound = json!({ "port": 80, "tags": { "kuma.io/service": "web" } });
    json!({
        "labels": { "kuma.io/workload": workload },
        "networking": { "address": "10.0.0.1", "inbound": [inbound] },
    })
}

fn record(bed: &Bed) -> Value {
    serde_json::from_str(&bed.0.store().get(&document::key("demo", ROLLOUT)).unwrap().spec).unwrap()
}

fn kept(bed: &Bed) -> Vec<String> {
    let labels = kept_labels(&bed.0.store().snapshot(), &ProxyKey::new("demo", "web-1"));
    labels.iter().map(|labels| labels["kuma.io/workload"].clone()).collect()
}

#[tokio::test]
async fn labels_before_a_change_are_kept_until_the_mesh_has_moved() {
    let bed = bed().await;
    let before = record(&bed);
    bed.put("Dataplane", "web-1", dataplane("old")).await.unwrap();
    let mut other = dataplane("old");
    other["labels"]["team"] = json!("shop");
    bed.put("Dataplane", "web-1", other).await.unwrap();
    assert_eq!(record(&bed), before, "the SPIFFE ID stays");
    bed.put("Dataplane", "web-1", dataplane("new")).await.unwrap();
    assert_eq!(kept(&bed), ["old"]);
    let after: RolloutRecord = serde_json::from_value(record(&bed)).unwrap();
    assert_eq!(after.behind, [Rollout::default()], "steps that proxies may be at stay");
    assert!(after.step.other_issuers.is_some_and(|other| other.presented.is_empty()), "clients expect both");
    // Also of a change on the way: what clients expect meanwhile stays, too.
    bed.put("Dataplane", "web-1", dataplane("newest")).await.unwrap();
    assert_eq!(kept(&bed), ["old", "new"]);
}

#[tokio::test]
async fn another_proxy_of_the_name_presents_nothing_of_the_one_before() {
    let registers = async |bed: &Bed| {
        let mut document = dataplane("new");
        document["type"] = json!("Dataplane");
        document["mesh"] = json!("demo");
        document["name"] = json!("web-1");
        let target = Target { kind: kind("Dataplane"), mesh: "demo", name: "web-1" };
        let author = Author::Proxy(Admission::default());
        bed.0.put_on(&bed.0.store().snapshot(), target, document, &author).await.unwrap();
    };
    let recreates = async |bed: &Bed| {
        bed.delete("Dataplane", "demo", "web-1").await.unwrap();
        bed.put("Dataplane", "web-1", dataplane("new")).await.unwrap();
    };
    for is_registered in [true, false] {
        let bed = bed().await;
        bed.put("Dataplane", "web-1", dataplane("old")).await.unwrap();
        bed.put("Dataplane", "web-1", dataplane("new")).await.unwrap();
        assert_eq!(kept(&bed), ["old"]);
        if is_registered {
            registers(&bed).await;
        } else {
            recreates(&bed).await;
        }
        assert_eq!(kept(&bed), Vec::<String>::new());
    }
}
