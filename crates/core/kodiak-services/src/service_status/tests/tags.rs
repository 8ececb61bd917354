//! Virtual addresses of `kuma.io/service` names, beside those of destinations.

use std::net::Ipv4Addr;

use kodiak_model::kinds::{
    dataplane::Inbound, mesh_external_service::MeshExternalServiceStatus,
    mesh_multi_zone_service::MeshMultiZoneServiceStatus,
};
use proptest::prelude::*;

use super::*;
use crate::service_addresses::Ranges;

const HOUR: i64 = 3600;

fn tag(kept: &Kept, service: &str) -> Option<String> {
    kept.world.vips.get(MESH)?.vips.get(service).map(|address| address.to_string())
}

#[test]
fn tags_of_dataplanes_get_addresses_in_every_mode() {
    for mode in [MeshServicesMode::Disabled, MeshServicesMode::Everywhere, MeshServicesMode::Exclusive] {
        let mut kept = Kept::new();
        kept.mesh(mode, false);
        kept.dataplane("p1", &serves(&[("web", 80), ("db", 90)]));
        kept.settle();
        assert_eq!(tag(&kept, "db").as_deref(), Some("240.0.0.0"));
        assert_eq!(tag(&kept, "web").as_deref(), Some("240.0.0.1"));
        assert_eq!(kept.restart(true), []);
    }
}

#[test]
fn address_is_released_a_day_after_the_last_dataplane_without_other_events() {
    let mut kept = Kept::new();
    kept.dataplane("p1", &serves(&[("web", 80)]));
    kept.settle();
    kept.gone("p1");
    kept.settle();
    kept.pass(23 * HOUR);
    assert!(tag(&kept, "web").is_some());
    // The MeshService of the name is deleted earlier.
    let end = kept.keeper.next_tick();
    assert_eq!(end, Some(at(24 * HOUR)));
    kept.pass(HOUR);
    assert_eq!(tag(&kept, "web"), None);
    assert_eq!(kept.keeper.next_tick(), None);
}

#[test]
fn failed_write_of_tag_addresses_is_retried_with_the_same_addresses() {
    let mut kept = Kept::new();
    kept.mesh(MeshServicesMode::Disabled, false);
    kept.dataplane("p1", &serves(&[("web", 80)]));
    let first = kept.keeper.due(at(0));
    assert_eq!(first.vips.len(), 1);
    assert_eq!(kept.keeper.due(at(0)).vips, [], "counts as done");
    kept.keeper.vips_again([name(MESH)]);
    assert_eq!(kept.keeper.due(at(0)), first);
}

#[test]
fn addresses_that_another_leader_stored_replace_own_unstored_ones() {
    let mut kept = Kept::new();
    kept.mesh(MeshServicesMode::Disabled, false);
    kept.dataplane("p1", &serves(&[("web", 80)]));
    kept.keeper.due(at(0));
    let vips = json!({ "next": 1, "services": { "other": { "address": "240.0.0.0" } } });
    let stored = StoredVips { vips: serde_json::from_value(vips).unwrap(), version: 1 };
    kept.world.vips.insert(name(MESH), stored.clone());
    kept.keeper.set_vips(&name(MESH), Some(stored));
    kept.settle();
    assert_eq!(tag(&kept, "other").as_deref(), Some("240.0.0.0"));
    assert_eq!(tag(&kept, "web").as_deref(), Some("240.0.0.1"));
}

/// Every mesh has all of the range: proxies of two meshes do not share listeners.
#[test]
fn two_meshes_may_have_the_same_tag_address_but_no_destination_gets_it() {
    let mut kept = Kept::new();
    kept.keeper = ServiceReconciler::new(with_services_in("240.0.0.0/31"), at(-1000));
    kept.mesh(MeshServicesMode::Everywhere, false);
    let vips = json!({ "next": 1, "services": { "web": { "address": "240.0.0.0" } } });
    let stored = StoredVips { vips: serde_json::from_value(vips).unwrap(), version: 1 };
    for mesh in ["one", "two"] {
        kept.keeper.set_vips(&name(mesh), Some(stored.clone()));
    }
    kept.put_service("a", &json!({}), &json!({}));
    kept.put_service("b", &json!({}), &json!({}));
    kept.settle();
    assert_eq!(kept.world.status("a").vips[0].ip, "240.0.0.1");
    assert_eq!(kept.world.status("b").vips, []);
    kept.keeper.set_vips(&name("one"), None);
    kept.settle();
    assert_eq!(kept.world.status("b").vips, [], "the other mesh still has it");
    kept.keeper.set_vips(&name("two"), None);
    kept.settle();
    assert_eq!(kept.world.status("b").vips[0].ip, "240.0.0.0");
}

fn with_services_in(range: &str) -> ServiceSettings {
    ServiceSettings {
        ranges: Ranges { services: range.parse().unwrap(), ..Ranges::default() },
        ..ServiceSettings::default()
    }
}

/// Everybody who can have an address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Destination(ServiceKey),
    Tag(Arc<str>),
}

fn owners(world: &World) -> BTreeMap<Owner, Ipv4Addr> {
    let destinations = world
        .services
        .iter()
        .flat_map(|(key, stored)| stored.addresses().map(|address| (Owner::Destination(key.clone()), address)));
    let tags = world.vips.values().flat_map(|stored| stored.vips.iter());
    destinations.chain(tags.map(|(name, address)| (Owner::Tag(name.clone()), address))).collect()
}

fn serving(world: &World) -> impl Iterator<Item = &str> {
    world.dataplanes.values().flat_map(|facts| facts.dataplane.inbounds().iter().filter_map(Inbound::service))
}

#[derive(Debug, Clone)]
enum Step {
    Dataplane {
        n: usize,
        services: Vec<usize>,
    },
    Gone(usize),
    Put {
        kind: usize,
        n: usize,
    },
    Delete {
        kind: usize,
        n: usize,
    },
    Mode(usize),
    Pass(i64),
    /// Writes are computed and lost.
    Lost,
    /// A new leader, with other ranges.
    Restart {
        range: usize,
        backwards: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        5 => (0..4_usize, prop::collection::vec(0..6_usize, 0..3))
            .prop_map(|(n, services)| Step::Dataplane { n, services }),
        3 => (0..4_usize).prop_map(Step::Gone),
        3 => (0..3_usize, 0..3_usize).prop_map(|(kind, n)| Step::Put { kind, n }),
        2 => (0..3_usize, 0..3_usize).prop_map(|(kind, n)| Step::Delete { kind, n }),
        1 => (0..3_usize).prop_map(Step::Mode),
        4 => prop::sample::select(vec![0, 121, HOUR, 13 * HOUR, 25 * HOUR]).prop_map(Step::Pass),
        1 => Just(Step::Lost),
        1 => (0..RANGES.len(), any::<bool>()).prop_map(|(range, backwards)| Step::Restart { range, backwards }),
    ];
    prop::collection::vec(step, 1..40)
}

/// Ranges of MeshServices. All but the first overlap the addresses of tags, and the small ones are exhausted.
const RANGES: [&str; 5] = ["241.0.0.0/8", "240.0.0.0/8", "240.0.0.0/30", "240.0.0.4/30", "240.0.0.0/5"];

fn destination(kind: usize, n: usize) -> ServiceKey {
    let kinds = [BackendKind::MeshService, BackendKind::MeshExternalService, BackendKind::MeshMultiZoneService];
    ServiceKey { kind: kinds[kind], mesh: name(MESH), name: format!("d{n}").into() }
}

fn take(kept: &mut Kept, step: &Step) {
    match step {
        Step::Dataplane { n, services } => {
            let inbounds: Vec<_> = services.iter().map(|service| (format!("s{service}"), 80)).collect();
            let inbounds: Vec<_> = inbounds.iter().map(|(service, port)| (service.as_str(), *port)).collect();
            kept.dataplane(&format!("p{n}"), &serves(&inbounds));
        }
        Step::Gone(n) => kept.gone(&format!("p{n}")),
        Step::Put { kind, n } => {
            let content = match kind {
                0 => Content::Service { spec: MeshService::default(), status: MeshServiceStatus::default() },
                1 => Content::External { fault: None, status: MeshExternalServiceStatus::default() },
                _ => Content::MultiZone {
                    spec: serde_json::from_value(json!({})).unwrap(),
                    status: MeshMultiZoneServiceStatus::default(),
                },
            };
            kept.put(&destination(*kind, *n), &json!({}), content);
        }
        Step::Delete { kind, n } => kept.delete(&destination(*kind, *n)),
        Step::Mode(mode) => {
            let modes = [MeshServicesMode::Everywhere, MeshServicesMode::Disabled, MeshServicesMode::Exclusive];
            kept.mesh(modes[*mode], false);
        }
        Step::Pass(seconds) => _ = kept.pass(*seconds),
        Step::Lost => {
            let due = kept.keeper.due(at(kept.now));
            kept.keeper.lost_positions();
            kept.keeper.again(due.writes.into_iter().map(|wanted| wanted.key));
            kept.keeper.vips_again(due.vips.into_iter().map(|wanted| wanted.mesh));
        }
        Step::Restart { range, backwards } => {
            kept.keeper = kept.world.keeper_with(with_services_in(RANGES[*range]), kept.now, *backwards);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn address_never_moves_while_its_owner_exists_and_never_has_two_owners(history in steps()) {
        let mut kept = Kept::new();
        let mut before = BTreeMap::new();
        for step in &history {
            take(&mut kept, step);
            match step {
                Step::Delete { kind, n } => _ = before.remove(&Owner::Destination(destination(*kind, *n))),
                Step::Pass(_) => {
                    let after = owners(&kept.world);
                    let unique: BTreeSet<_> = after.values().collect();
                    prop_assert_eq!(unique.len(), after.len(), "{:?}", &after);
                    for service in serving(&kept.world) {
                        prop_assert!(after.contains_key(&Owner::Tag(service.into())), "{} has no address", service);
                    }
                    for (owner, address) in &before {
                        prop_assert!(after.get(owner).is_none_or(|now| now == address), "{:?} moved", owner);
                    }
                    before = after;
                }
                _ => (),
            }
        }
    }
}
