//! Which address is given out next.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::{pools::Pools, *};

const SERVICE: BackendKind = BackendKind::MeshService;

fn address(text: &str) -> Ipv4Addr {
    text.parse().unwrap()
}

/// Pools of which the one for MeshServices is small.
fn small(services: &str) -> Pools {
    Pools::new(Ranges { services: services.parse().unwrap(), ..Ranges::default() })
}

fn taken(pools: &mut Pools, count: usize) -> Vec<String> {
    (0..count).map_while(|_| pools.take(SERVICE, |_| true)).map(|address| address.to_string()).collect()
}

#[test]
fn virtual_addresses_are_those_of_tags_and_of_ranges_elsewhere() {
    let shown = |services: &str| {
        let ranges = Ranges { services: services.parse().unwrap(), ..Ranges::default() };
        ranges.virtual_addresses().iter().map(Cidr::to_string).collect::<Vec<_>>()
    };
    assert_eq!(shown("241.0.0.0/8"), ["240.0.0.0/4"]);
    assert_eq!(shown("10.7.0.0/16"), ["240.0.0.0/4", "10.7.0.0/16"]);
}

#[test]
fn each_kind_has_its_own_range() {
    let mut pools = Pools::new(Ranges::default());
    for (kind, first, second) in [
        (BackendKind::MeshService, "241.0.0.0", "241.0.0.1"),
        (BackendKind::MeshExternalService, "242.0.0.0", "242.0.0.1"),
        (BackendKind::MeshMultiZoneService, "243.0.0.0", "243.0.0.1"),
    ] {
        assert_eq!(
            [pools.take(kind, |_| true), pools.take(kind, |_| true)],
            [Some(address(first)), Some(address(second))]
        );
    }
}

#[test]
fn ranges_must_not_overlap() {
    assert_eq!(Ranges::default().check(), Ok(()));
    let ranges = Ranges { multi_zone_services: "240.0.0.0/7".parse().unwrap(), ..Ranges::default() };
    let expected = "241.0.0.0/8 of MeshService and 240.0.0.0/7 of MeshMultiZoneService have addresses in common: \
                    choose ranges apart";
    assert_eq!(ranges.check().unwrap_err().to_string(), expected);
    let ranges = Ranges { multi_zone_services: "242.5.0.0/16".parse().unwrap(), ..Ranges::default() };
    assert!(ranges.check().unwrap_err().to_string().contains("242.0.0.0/8 of MeshExternalService"));
}

#[test]
fn addresses_in_use_are_skipped() {
    let mut pools = small("10.0.0.0/29");
    for held in ["10.0.0.0", "10.0.0.1", "10.0.0.3", "10.0.0.3"] {
        pools.reserve(address(held));
    }
    assert_eq!(taken(&mut pools, 3), ["10.0.0.2", "10.0.0.4", "10.0.0.5"]);
}

#[test]
fn released_address_is_reused_after_all_behind_it() {
    let mut pools = small("10.0.0.0/30");
    assert_eq!(taken(&mut pools, 2), ["10.0.0.0", "10.0.0.1"]);
    pools.release(address("10.0.0.0"));
    assert_eq!(taken(&mut pools, 4), ["10.0.0.2", "10.0.0.3", "10.0.0.0"]);
}

#[test]
fn exhausted_range_allocates_again_after_a_release() {
    let mut pools = small("255.255.255.254/31");
    assert_eq!(taken(&mut pools, 3), ["255.255.255.254", "255.255.255.255"]);
    assert_eq!(pools.take(SERVICE, |_| true), None);
    pools.release(address("255.255.255.255"));
    assert_eq!(taken(&mut pools, 2), ["255.255.255.255"]);
}

#[test]
fn first_and_last_address_can_be_reserved() {
    let mut pools = small("0.0.0.0/0");
    pools.reserve(Ipv4Addr::UNSPECIFIED);
    pools.reserve(Ipv4Addr::BROADCAST);
    let last = Positions { services: Ipv4Addr::BROADCAST, ..pools.position() };
    pools.resume(&last);
    assert_eq!(taken(&mut pools, 1), ["0.0.0.1"]);
}

#[test]
fn addresses_outside_of_the_range_are_ignored() {
    let mut pools = small("10.0.0.0/30");
    let before = pools.clone();
    pools.reserve(address("10.0.0.4"));
    pools.reserve(address("9.255.255.255"));
    pools.release(address("10.0.0.4"));
    pools.resume(&Positions { services: address("241.0.0.9"), ..pools.position() });
    assert_eq!(pools, before);
}

#[test]
fn new_leader_does_not_reuse_a_released_address() {
    let mut old = Pools::new(Ranges::default());
    assert_eq!(taken(&mut old, 2), ["241.0.0.0", "241.0.0.1"]);
    old.release(address("241.0.0.1"));
    let stored = serde_json::to_value(old.position()).unwrap();
    // Earlier versions did not count the writes.
    let earlier = json!({ "services": "241.0.0.2", "externalServices": "242.0.0.0", "multiZoneServices": "243.0.0.0" });
    let mut written = earlier.clone();
    written["writes"] = json!(0);
    assert_eq!(stored, written);
    let mut new = Pools::new(Ranges::default());
    new.resume(&serde_json::from_value(earlier).unwrap());
    new.reserve(address("241.0.0.0"));
    assert_eq!(taken(&mut new, 1), ["241.0.0.2"]);
}

#[derive(Debug, Clone)]
enum Step {
    Reserve(u8),
    Release(u8),
    Take,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..16_u8).prop_map(Step::Reserve),
        (0..16_u8).prop_map(Step::Release),
        Just(Step::Take),
        Just(Step::Take)
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// The same, by a set of what is in use, and a walk from address to address.
    #[test]
    fn the_next_free_address_is_found_as_by_walking(steps in steps()) {
        let mut pools = small("10.0.0.0/28");
        let (mut used, mut next) = (BTreeSet::new(), 0_u8);
        let at = |n: u8| Ipv4Addr::new(10, 0, 0, n);
        for step in steps {
            match step {
                Step::Reserve(n) => {
                    pools.reserve(at(n));
                    used.insert(n);
                }
                Step::Release(n) => {
                    pools.release(at(n));
                    used.remove(&n);
                }
                Step::Take => {
                    let free = (0..16).map(|step| (next + step) % 16).find(|n| !used.contains(n));
                    prop_assert_eq!(pools.take(SERVICE, |_| true), free.map(at));
                    used.extend(free);
                    next = free.map_or(next, |n| (n + 1) % 16);
                }
            }
            prop_assert_eq!(pools.position().services, at(next));
        }
    }
}
