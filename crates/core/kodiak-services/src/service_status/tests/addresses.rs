//! Virtual addresses: who has one keeps it.

use super::*;

fn vip(kept: &Kept, of: &str) -> String {
    let vips = &kept.world.status(of).vips;
    assert_eq!(vips.len(), 1);
    vips[0].ip.clone()
}

fn plain(kept: &mut Kept, of: &str) {
    kept.put_service(of, &json!({}), &json!({}));
}

#[test]
fn each_service_gets_an_address_and_keeps_it() {
    let mut kept = Kept::new();
    plain(&mut kept, "a");
    plain(&mut kept, "b");
    let positions = kept.keeper.due(at(0)).positions;
    assert_eq!(positions.map(|positions| positions.services.to_string()).as_deref(), Some("241.0.0.2"));
    kept.keeper.again([service("a"), service("b")]);
    kept.settle();
    assert_eq!((vip(&kept, "a").as_str(), vip(&kept, "b").as_str()), ("241.0.0.0", "241.0.0.1"));
    for backwards in [false, true] {
        assert_eq!(kept.restart(backwards), []);
        assert_eq!(kept.keeper.due(at(0)).positions, None);
    }
}

#[test]
fn released_address_is_not_reused_at_once_also_by_a_new_leader() {
    let mut kept = Kept::new();
    plain(&mut kept, "a");
    plain(&mut kept, "b");
    kept.settle();
    kept.delete(&service("b"));
    kept.restart(false);
    plain(&mut kept, "c");
    kept.settle();
    assert_eq!(vip(&kept, "c"), "241.0.0.2");
}

#[test]
fn failed_write_is_retried_with_the_same_address() {
    let mut kept = Kept::new();
    plain(&mut kept, "a");
    let first = kept.keeper.due(at(0));
    assert_eq!(kept.keeper.due(at(0)).writes, [], "taken for done");
    kept.keeper.again([service("a")]);
    assert_eq!(kept.keeper.due(at(0)), first);
}

#[test]
fn addresses_of_another_leader_are_not_used() {
    let mut kept = Kept::new();
    plain(&mut kept, "a");
    kept.keeper.due(at(0));
    // Another one, who leads by now, has given the same address to a service that is not known here yet.
    let elsewhere: Positions = serde_json::from_value(
        json!({ "services": "241.0.0.1", "externalServices": "242.0.0.0", "multiZoneServices": "243.0.0.0" }),
    )
    .unwrap();
    kept.keeper.lost_positions();
    kept.keeper.set_positions(elsewhere);
    kept.settle();
    assert_eq!(vip(&kept, "a"), "241.0.0.1");
}

#[test]
fn foreign_address_is_kept_and_not_allocated_again() {
    let mut kept = Kept::new();
    plain(&mut kept, "a");
    let mut stored = kept.world.services[&service("a")].clone();
    let status = serde_json::from_value(json!({ "vips": [{ "ip": "241.0.0.0" }, { "ip": "10.9.9.9" }] })).unwrap();
    stored.content = Content::Service { spec: kept.world.spec("a").clone(), status };
    stored.status_version = Some(1);
    kept.world.services.insert(service("a"), stored.clone());
    kept.keeper.set_service(&service("a"), Some(stored));
    plain(&mut kept, "b");
    kept.settle();
    assert_eq!(kept.world.status("a").vips.len(), 2);
    assert_eq!(vip(&kept, "b"), "241.0.0.1");
}

/// A world in which so few MeshServices can have an address.
fn few(range: &str) -> Kept {
    let mut kept = Kept::new();
    let mut settings = ServiceSettings::default();
    settings.ranges.services = range.parse().unwrap();
    kept.keeper = ServiceReconciler::new(settings, at(-1000));
    kept.mesh(MeshServicesMode::Everywhere, false);
    kept
}

#[test]
fn unused_allocation_is_released() {
    let mut kept = few("10.0.0.0/32");
    plain(&mut kept, "a");
    kept.keeper.due(at(0));
    kept.keeper.lost_positions();
    kept.settle();
    assert_eq!(vip(&kept, "a"), "10.0.0.0");
}

#[test]
fn service_without_address_gets_one_when_another_is_released() {
    let mut kept = few("10.0.0.0/31");
    for of in ["a", "b", "c"] {
        plain(&mut kept, of);
    }
    assert_eq!(kept.keeper.due(at(0)).without_address, [service("c")]);
    kept.keeper.again(["a", "b", "c"].map(service));
    kept.settle();
    assert_eq!(kept.world.status("c").vips, []);
    kept.delete(&service("a"));
    kept.settle();
    assert_eq!(vip(&kept, "c"), "10.0.0.0");
}
