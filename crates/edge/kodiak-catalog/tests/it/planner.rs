//! Documents that are planned together.

use std::time::Duration;

use kodiak_catalog::{Rights, Target, Unfit};
use kodiak_kinds::kinds;
use kodiak_model::{Cancellation, Cancelled};
use kodiak_store::Snapshot;
use serde_json::{Value, json};

use crate::bed::Bed;

const PERMISSION: &str = "MeshTrafficPermission";

fn permission(name: &str, tags: &Value) -> Value {
    let target = json!({ "kind": "MeshSubset", "tags": tags });
    let from = json!([{ "targetRef": target, "default": { "action": "Allow" } }]);
    json!({ "type": PERMISSION, "mesh": "demo", "name": name, "spec": { "from": from } })
}

fn target(name: &str) -> Target<'_> {
    Target { kind: kinds().by_name(PERMISSION).unwrap(), mesh: "demo", name }
}

async fn bed() -> Bed {
    let bed = Bed::new().await;
    bed.put_mesh("", json!([])).await.unwrap();
    let inbound = json!([{ "port": 80, "tags": { "kuma.io/service": "web" } }]);
    bed.put("Dataplane", "web", json!({ "networking": { "address": "127.0.0.1", "inbound": inbound } })).await.unwrap();
    bed
}

fn plan(bed: &Bed, before: &Snapshot, count: usize) -> Result<Snapshot, Unfit> {
    let cancellation = Cancellation::never();
    let mut planner = bed.0.planner(before, Rights::default(), &cancellation);
    for n in 0..count {
        let name = format!("p-{n}");
        planner.write(target(&name), permission(&name, &json!({ "kuma.io/service": format!("s-{n}") }))).unwrap();
    }
    planner.finish().map(|planned| planned.after)
}

/// Time that this thread has spent on a processor: unlike the time of a clock, it does not depend on what else the machine
/// does.
fn processor_time() -> Duration {
    Duration::try_from(rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)).unwrap()
}

#[tokio::test]
async fn cost_is_proportional_to_the_documents() {
    let bed = bed().await;
    let before = bed.0.store().snapshot();
    let cost = |count| {
        let started = processor_time();
        plan(&bed, &before, count).unwrap();
        processor_time().checked_sub(started).unwrap()
    };
    let least = |count| (0..3).map(|_| cost(count)).min().unwrap();
    let (some, four_times_as_many) = (least(300), least(1_200));
    assert!(four_times_as_many < 8 * some, "{some:?}, then {four_times_as_many:?}");
}

#[tokio::test]
async fn document_with_too_many_combinations_is_named() {
    let bed = bed().await;
    let before = bed.0.store().snapshot();
    let cancellation = Cancellation::never();
    let mut planner = bed.0.planner(&before, Rights::default(), &cancellation);
    for n in 0..20 {
        let name = format!("p-{n:02}");
        planner.write(target(&name), permission(&name, &json!({ format!("key-{n}"): "x" }))).unwrap();
    }
    let Unfit { key, refusal } = planner.finish().unwrap_err();
    assert!(key.is_some_and(|key| key.name.starts_with("p-")));
    assert!(refusal.to_string().contains("combinations"), "{refusal}");
    // One by one, they are refused at the same number of combinations.
    let mut stored = 0;
    for n in 0..20 {
        let name = format!("p-{n:02}");
        let document = permission(&name, &json!({ format!("key-{n}"): "x" }));
        stored += usize::from(bed.0.put_with(target(&name), document, Rights::default()).await.is_ok());
    }
    assert!((5..20).contains(&stored), "{stored}");
}

#[tokio::test]
async fn cancelled_plan_has_no_result() {
    let bed = bed().await;
    let before = bed.0.store().snapshot();
    let cancellation = Cancellation::never();
    let mut planner = bed.0.planner(&before, Rights::default(), &cancellation);
    planner.write(target("a"), permission("a", &json!({ "a": "b" }))).unwrap();
    cancellation.cancel();
    let refused = planner.write(target("b"), permission("b", &json!({ "a": "b" }))).unwrap_err();
    assert_eq!(refused.to_string(), Cancelled.to_string());
    assert_eq!(planner.finish().unwrap_err().refusal.to_string(), Cancelled.to_string());
}
