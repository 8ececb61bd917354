//! Workloads: generated for Dataplanes with the label, with the counts of their proxies.

use kodiak_model::kinds::workload::{DataplaneProxies, WorkloadStatus};

use super::*;

fn workload(text: &str) -> WorkloadKey {
    WorkloadKey { mesh: name(MESH), name: name(text) }
}

fn labelled(text: &str) -> Value {
    json!({ "kuma.io/workload": text })
}

impl World {
    /// As a store does it.
    pub(super) fn write_workload(&mut self, WantedWorkload { key, write }: &WantedWorkload) {
        let found = self.workloads.get_mut(key);
        match write {
            WorkloadWrite::Put { labels, version } => {
                assert_eq!(found.as_ref().map(|found| found.version), *version, "{key:?}");
                let Some(found) = found else {
                    let (labels, status) = (Arc::new(labels.clone()), WorkloadStatus::default());
                    let stored = StoredWorkload { labels, version: 1, status_version: None, status };
                    self.workloads.insert(key.clone(), stored);
                    return;
                };
                assert_ne!(*found.labels, *labels, "written as it was: {key:?}");
                found.labels = Arc::new(labels.clone());
                found.version += 1;
            }
            WorkloadWrite::Status { status, version } => {
                let found = found.expect("only an existing Workload has a status");
                assert_eq!(found.status_version, *version, "{key:?}");
                assert!(version.is_none() || found.status != *status, "written as it was: {key:?}");
                found.status = status.clone();
                found.status_version = Some(version.unwrap_or_default() + 1);
            }
            WorkloadWrite::Delete { version } => {
                assert_eq!(found.map(|found| found.version), Some(*version), "{key:?}");
                self.workloads.remove(key);
            }
        }
    }

    /// Connected, healthy and in total.
    fn workload_counts(&self, of: &str) -> [u32; 3] {
        let DataplaneProxies { connected, healthy, total } = self.workloads[&workload(of)].status.dataplane_proxies;
        [connected, healthy, total]
    }

    fn workload_names(&self) -> Vec<&str> {
        self.workloads.keys().map(|key| &*key.name).collect()
    }

    /// Counted from scratch.
    pub(super) fn check_workloads(&self, now: i64) {
        let mut expected: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
        for (name, facts) in &self.dataplanes {
            let Some(workload) = facts.labels.get("kuma.io/workload") else { continue };
            let seen = self.seen.get(name).copied().unwrap_or_default();
            let connected = seen.online || seen.left.is_some_and(|left| at(now - 30) < left);
            let healthy = facts.dataplane.inbounds().iter().any(kodiak_model::kinds::dataplane::Inbound::is_ready);
            let counts = expected.entry(workload).or_default();
            *counts = [counts[0] + u32::from(connected), counts[1] + u32::from(healthy), counts[2] + 1];
        }
        let found: BTreeMap<&str, [u32; 3]> =
            self.workloads.keys().map(|key| (&*key.name, self.workload_counts(&key.name))).collect();
        assert_eq!(found, expected);
    }
}

impl Kept {
    fn put_workload(&mut self, text: &str, with: &Value) {
        let stored = StoredWorkload {
            labels: labels(with),
            version: 1,
            status_version: None,
            status: WorkloadStatus::default(),
        };
        self.world.workloads.insert(workload(text), stored.clone());
        self.keeper.set_workload(&workload(text), Some(stored));
    }

    /// Number of writes of Workloads until nothing is left to write.
    fn workload_writes(&mut self) -> usize {
        let due = self.keeper.due(at(self.now));
        for wanted in &due.workloads {
            self.world.write_workload(wanted);
            self.keeper.set_workload(&wanted.key, self.world.workloads.get(&wanted.key).cloned());
        }
        let count = due.workloads.len();
        if count == 0 { 0 } else { count + self.workload_writes() }
    }
}

#[test]
fn workload_is_generated_with_its_labels_and_counts() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[("web", 80)]), &labelled("shop"));
    kept.dataplane_with("p2", &serves(&[]), &labelled("shop"));
    kept.dataplane("other", &serves(&[("web", 80)]));
    kept.seen("p1", ONLINE);
    kept.settle();
    assert_eq!(kept.world.workload_names(), ["shop"]);
    assert_eq!(kept.world.workload_counts("shop"), [1, 1, 2]);
    let expected = json!({
        "kuma.io/display-name": "shop",
        "kuma.io/env": "universal",
        "kuma.io/managed-by": "workload-generator",
        "kuma.io/mesh": MESH,
        "kuma.io/origin": "zone",
        "kuma.io/zone": "default",
    });
    assert_eq!(kept.world.workloads[&workload("shop")].labels, labels(&expected));
}

#[test]
fn generated_workload_is_deleted_with_its_last_dataplane() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[("web", 80)]), &labelled("shop"));
    kept.dataplane_with("p2", &serves(&[("web", 80)]), &labelled("shop"));
    kept.settle();
    kept.gone("p1");
    kept.settle();
    assert_eq!(kept.world.workload_counts("shop"), [0, 1, 1]);
    // A Dataplane that moves to another one.
    kept.dataplane_with("p2", &serves(&[("web", 80)]), &labelled("till"));
    kept.settle();
    assert_eq!(kept.world.workload_names(), ["till"]);
    kept.gone("p2");
    kept.settle();
    assert!(kept.world.workloads.is_empty());
}

#[test]
fn workload_of_a_user_is_counted_but_neither_changed_nor_deleted() {
    let mut kept = Kept::new();
    kept.put_workload("shop", &json!({ "team": "a" }));
    kept.dataplane_with("p1", &serves(&[("web", 80)]), &labelled("shop"));
    kept.settle();
    assert_eq!(kept.world.workload_counts("shop"), [0, 1, 1]);
    kept.gone("p1");
    kept.settle();
    assert_eq!(kept.world.workload_counts("shop"), [0, 0, 0]);
    let stored = &kept.world.workloads[&workload("shop")];
    assert_eq!((stored.version, &stored.labels), (1, &labels(&json!({ "team": "a" }))));
}

#[test]
fn workload_of_another_zone_is_left_alone() {
    let mut kept = Kept::new();
    let elsewhere = json!({ "kuma.io/origin": "global", "kuma.io/managed-by": "workload-generator" });
    kept.put_workload("shop", &elsewhere);
    kept.settle();
    assert_eq!(kept.world.workloads[&workload("shop")].status_version, None);
}

#[test]
fn deleted_workload_is_generated_again_and_its_labels_are_repaired() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[("web", 80)]), &labelled("shop"));
    kept.settle();
    kept.world.workloads.remove(&workload("shop"));
    kept.keeper.set_workload(&workload("shop"), None);
    kept.settle();
    assert_eq!(kept.world.workload_counts("shop"), [0, 1, 1]);
    kept.put_workload("shop", &json!({ "kuma.io/managed-by": "workload-generator", "team": "a" }));
    kept.settle();
    let labels = &kept.world.workloads[&workload("shop")].labels;
    assert_eq!((labels["kuma.io/mesh"].as_str(), labels["team"].as_str()), (MESH, "a"));
}

#[test]
fn no_workload_is_generated_for_gateways_and_invalid_names() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[("web", 80)]), &labelled("Not.A.Label"));
    kept.dataplane_with("p2", &serves(&[("web", 80)]), &labelled(""));
    let gateway =
        json!({ "networking": { "address": "10.0.0.1", "gateway": { "tags": { "kuma.io/service": "gw" } } } });
    let dataplane = Arc::new(serde_json::from_value(gateway).unwrap());
    let facts = DataplaneFacts { labels: labels(&labelled("edge")), created: at(0), dataplane, admission: None };
    kept.keeper.set_dataplane(&name(MESH), &name("gw"), Some(facts));
    kept.settle();
    assert!(kept.world.workloads.is_empty());
}

#[test]
fn workloads_wait_for_their_mesh() {
    let mut kept = Kept::new();
    let mesh = name("other");
    let dataplane = Arc::new(serde_json::from_value(json!({})).unwrap());
    let facts = DataplaneFacts { labels: labels(&labelled("shop")), created: at(0), dataplane, admission: None };
    kept.keeper.set_dataplane(&mesh, &name("p1"), Some(facts));
    assert_eq!(kept.workload_writes(), 0);
    let facts = MeshFacts { mode: MeshServicesMode::Disabled, mtls: false, rollout: Arc::default() };
    kept.keeper.set_mesh(&mesh, Some(facts));
    assert_eq!(kept.workload_writes(), 2);
}

#[test]
fn only_changes_of_counts_are_written() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &json!([{ "port": 80 }]), &labelled("shop"));
    kept.seen("p1", ONLINE);
    kept.settle();
    // A certificate, another port, another label: the counts are as before.
    kept.seen("p1", Seen { certified: true, ..ONLINE });
    assert_eq!(kept.workload_writes(), 0);
    let looked_at = kept.keeper.work().workloads_looked_at;
    let more = json!({ "kuma.io/workload": "shop", "app": "web" });
    kept.dataplane_with("p1", &json!([{ "port": 81 }]), &more);
    assert_eq!(kept.workload_writes(), 0);
    assert_eq!(kept.keeper.work().workloads_looked_at, looked_at, "nothing that counts changed");
    kept.dataplane_with("p1", &json!([{ "port": 81, "state": "NotReady" }]), &more);
    assert_eq!(kept.workload_writes(), 1);
    assert_eq!(kept.world.workload_counts("shop"), [1, 0, 1]);
    assert_eq!(kept.restart(false), []);
    assert_eq!(kept.restart(true), []);
}

#[test]
fn proxy_counts_as_connected_for_the_grace_period() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[]), &labelled("shop"));
    kept.seen("p1", ONLINE);
    kept.settle();
    kept.seen("p1", left(0));
    kept.pass(29);
    assert_eq!(kept.world.workload_counts("shop"), [1, 0, 1]);
    kept.pass(1);
    assert_eq!(kept.world.workload_counts("shop"), [0, 0, 1]);
}

#[test]
fn proxies_of_a_workload_have_time_to_reconnect_after_an_outage() {
    let mut kept = Kept::new();
    kept.dataplane_with("p1", &serves(&[]), &labelled("shop"));
    kept.seen("p1", ONLINE);
    kept.settle();
    kept.seen("p1", left(10));
    kept.now = 10_000;
    kept.restart(false);
    assert_eq!(kept.world.workload_counts("shop"), [1, 0, 1]);
    kept.pass(30);
    assert_eq!(kept.world.workload_counts("shop"), [0, 0, 1]);
}

#[test]
fn work_is_proportional_to_the_affected_workloads() {
    let mut kept = Kept::new();
    for n in 0..200 {
        kept.dataplane_with(&format!("p{n}"), &serves(&[]), &labelled(&format!("w{}", n % 100)));
    }
    kept.settle();
    let before = kept.keeper.work().workloads_looked_at;
    kept.seen("p7", ONLINE);
    kept.settle();
    // The change, and what was written.
    assert_eq!(kept.keeper.work().workloads_looked_at - before, 2);
    assert_eq!(kept.world.workload_counts("w7"), [1, 0, 2]);
}
