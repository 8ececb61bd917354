//! Property: the result does not depend on the history.

use kodiak_model::kinds::{dataplane::Inbound, mesh_multi_zone_service::MeshMultiZoneServiceStatus};
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Dataplane {
        n: usize,
        shape: usize,
    },
    Gone {
        n: usize,
    },
    Seen {
        n: usize,
        how: usize,
    },
    Mesh {
        mode: usize,
        mtls: bool,
    },
    ByHand {
        n: usize,
        shape: usize,
    },
    Deleted {
        n: usize,
    },
    Generator {
        n: usize,
        shape: usize,
    },
    /// Time passes, and what is due is written.
    Pass(i64),
    /// Somebody else takes over.
    Restart(bool),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..4_usize, 0..5_usize).prop_map(|(n, shape)| Step::Dataplane { n, shape }),
        2 => (0..4_usize).prop_map(|n| Step::Gone { n }),
        4 => (0..4_usize, 0..4_usize).prop_map(|(n, how)| Step::Seen { n, how }),
        1 => (0..3_usize, any::<bool>()).prop_map(|(mode, mtls)| Step::Mesh { mode, mtls }),
        2 => (0..3_usize, 0..4_usize).prop_map(|(n, shape)| Step::ByHand { n, shape }),
        1 => (0..3_usize).prop_map(|n| Step::Deleted { n }),
        1 => (0..2_usize, 0..3_usize).prop_map(|(n, shape)| Step::Generator { n, shape }),
        4 => prop::sample::select(vec![0, 10, 31, 121, 3601]).prop_map(Step::Pass),
        1 => any::<bool>().prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..30)
}

const SERVICES: [&str; 3] = ["web", "db", "mine"];

fn apply(kept: &mut Kept, step: &Step) {
    match *step {
        Step::Dataplane { n, shape } => {
            let inbounds = [
                serves(&[("web", 80)]),
                serves(&[("web", 81)]),
                serves(&[("web", 80), ("db", 90)]),
                json!([{ "port": 80, "state": "NotReady", "tags": { "kuma.io/service": "web" } }]),
                serves(&[]),
            ];
            let mut labels = json!({ "app": format!("a{}", n % 2) });
            if shape != 1 {
                labels["kuma.io/workload"] = format!("w{}", (n + shape) % 2).into();
            }
            kept.dataplane_with(&format!("p{n}"), &inbounds[shape], &labels);
        }
        Step::Gone { n } => kept.gone(&format!("p{n}")),
        Step::Seen { n, how } => {
            let certified = Seen { certified: true, ..ONLINE };
            let seen = [ONLINE, certified, left(kept.now), Seen::default()][how];
            kept.seen(&format!("p{n}"), seen);
        }
        Step::Mesh { mode, mtls } => {
            let modes = [MeshServicesMode::Everywhere, MeshServicesMode::Disabled, MeshServicesMode::Exclusive];
            kept.mesh(modes[mode], mtls);
        }
        Step::ByHand { n, shape } => by_hand(kept, SERVICES[n], shape),
        Step::Deleted { n } => kept.delete(&service(SERVICES[n])),
        Step::Generator { n, shape } => {
            let templates = ["{{ .Name }}.mesh", "same.mesh"];
            let name: Arc<str> = format!("g{n}").into();
            if let Some(template) = templates.get(shape) {
                let spec = json!({ "selector": { "meshService": {} }, "template": template });
                kept.generator(&name, &spec);
            } else {
                kept.world.generators.remove(&name);
                kept.keeper.set_generator(&name, None);
            }
        }
        Step::Pass(seconds) => {
            kept.pass(seconds);
        }
        Step::Restart(backwards) => {
            kept.restart(backwards);
        }
    }
}

/// A MeshService that somebody writes, over another one too; or a MeshMultiZoneService.
fn by_hand(kept: &mut Kept, text: &str, shape: usize) {
    let ports = json!([{ "port": 80, "targetPort": 80 }]);
    let selectors = [
        json!({ "dataplaneTags": { "kuma.io/service": "web" } }),
        json!({ "dataplaneLabels": { "matchLabels": { "app": "a0" } } }),
        json!({ "dataplaneRef": { "name": "p1" } }),
    ];
    if let Some(selector) = selectors.get(shape) {
        kept.put_service(text, &json!({ "app": "x" }), &json!({ "selector": selector, "ports": ports }));
    } else {
        let key = ServiceKey { kind: BackendKind::MeshMultiZoneService, ..service("group") };
        let spec = json!({ "selector": { "meshService": { "matchLabels": { "app": "x" } } } });
        let spec = serde_json::from_value(spec).unwrap();
        kept.put(&key, &json!({}), Content::MultiZone { spec, status: MeshMultiZoneServiceStatus::default() });
    }
}

/// Which address a service gets depends on what was given out before: that is not compared.
fn without_addresses(mut writes: Vec<Wanted>) -> Vec<Wanted> {
    for wanted in &mut writes {
        if let Write::Status { status, .. } = &mut wanted.write {
            match status {
                Status::Service(status) => status.vips.clear(),
                Status::External(status) => status.vip.ip.clear(),
                Status::MultiZone(status) => status.vips.clear(),
            }
        }
    }
    writes
}

/// Counted by hand: total, connected and healthy follow from who is selected now.
fn check_counts(kept: &Kept) {
    let world = &kept.world;
    for (key, stored) in &world.services {
        let Content::Service { spec, status } = &stored.content else { continue };
        let mut expected = [0, 0, 0];
        for (name, facts) in &world.dataplanes {
            let inbounds = facts.dataplane.inbounds();
            let tags = |tags: &BTreeMap<String, String>| {
                inbounds.iter().any(|inbound| tags.iter().all(|(key, value)| inbound.tags.get(key) == Some(value)))
            };
            let selected = spec.selector.dataplane_tags.as_ref().is_some_and(tags)
                || spec.selector.dataplane_ref.as_ref().is_some_and(|reference| *reference.name == **name)
                || spec.selector.dataplane_labels.as_ref().is_some_and(|labels| labels.matches(&facts.labels));
            if !selected || inbounds.is_empty() {
                continue;
            }
            let seen = world.seen.get(name).copied().unwrap_or_default();
            let connected = seen.online || seen.left.is_some_and(|left| at(kept.now - 30) < left);
            let numbers: Vec<i64> = spec.ports.iter().map(|port| i64::from(port.port)).collect();
            let called: Vec<_> = inbounds.iter().filter(|inbound| numbers.contains(&i64::from(inbound.port))).collect();
            let ready = !called.is_empty() && inbounds.iter().all(Inbound::is_ready);
            expected =
                [expected[0] + u32::from(connected), expected[1] + u32::from(connected && ready), expected[2] + 1];
        }
        let proxies = &status.dataplane_proxies;
        assert_eq!([proxies.connected, proxies.healthy, proxies.total], expected, "{key:?}");
        assert_eq!(spec.state.is(State::Available), expected[1] > 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn incremental_state_equals_state_from_scratch(history in steps()) {
        let mut kept = Kept::new();
        for step in &history {
            apply(&mut kept, step);
        }
        // Proxies that were on their way back are back, or not.
        kept.now += 40;
        let mut fresh = kept.world.keeper(kept.now - 1000, false);
        let mut backwards = kept.world.keeper(kept.now - 1000, true);
        let (expected, other) = (fresh.due(at(kept.now)), backwards.due(at(kept.now)));
        prop_assert_eq!(&other.workloads, &expected.workloads);
        let (workloads, expected) = (expected.workloads, without_addresses(expected.writes));
        prop_assert_eq!(&without_addresses(other.writes), &expected);
        let due = kept.keeper.due(at(kept.now));
        prop_assert_eq!(due.workloads, workloads);
        let written: BTreeSet<_> = due.writes.iter().map(|wanted| wanted.key.clone()).collect();
        let wanted: BTreeSet<_> = expected.iter().map(|wanted| wanted.key.clone()).collect();
        prop_assert_eq!(&written, &wanted);
        kept.keeper.again(written);
        prop_assert_eq!(without_addresses(kept.keeper.due(at(kept.now)).writes), expected);
    }

    #[test]
    fn settled_state_is_correct_and_stable_for_a_new_leader(history in steps(), backwards in any::<bool>()) {
        let mut kept = Kept::new();
        for step in &history {
            apply(&mut kept, step);
        }
        kept.pass(40);
        check_counts(&kept);
        kept.world.check_workloads(kept.now);
        let addresses: Vec<_> = kept.world.services.values().flat_map(Stored::addresses).collect();
        prop_assert_eq!(addresses.iter().collect::<BTreeSet<_>>().len(), addresses.len());
        prop_assert_eq!(addresses.len(), kept.world.services.len());
        prop_assert_eq!(kept.restart(backwards), vec![]);
    }
}
