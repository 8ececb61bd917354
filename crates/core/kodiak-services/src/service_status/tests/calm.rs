//! Stability: a restart writes nothing, and a state does not flap.

use super::*;

/// Ten proxies of two services, all settled.
fn settled() -> Kept {
    let mut kept = Kept::new();
    kept.generator("local", &json!({ "selector": { "meshService": {} }, "template": "{{ .Name }}.mesh" }));
    for n in 0..10 {
        kept.serving(&format!("p{n}"), if n % 2 == 0 { "web" } else { "db" });
    }
    kept.settle();
    assert_eq!((kept.world.counts("web"), kept.world.counts("db")), ([5, 5, 5], [5, 5, 5]));
    kept
}

#[test]
fn new_leader_writes_nothing_in_any_order_of_changes() {
    for backwards in [false, true] {
        let mut kept = settled();
        assert_eq!(kept.restart(backwards), []);
    }
}

#[test]
fn proxies_have_time_to_reconnect_after_an_outage() {
    let mut kept = settled();
    kept.seen("p1", left(-3600));
    kept.pass(1);
    assert_eq!(kept.world.counts("db"), [4, 4, 5]);
    for n in 0..10 {
        kept.seen(&format!("p{n}"), left(10));
    }
    // Nobody was there to see it.
    kept.now = 10_000;
    assert_eq!(kept.restart(false), []);
    for n in 0..9 {
        kept.seen(&format!("p{n}"), ONLINE);
        assert_eq!(kept.pass(1), []);
    }
    assert_eq!((kept.world.counts("web"), kept.world.counts("db")), ([5, 5, 5], [4, 4, 5]));
    // One has not come back, and one who was away before has.
    assert_eq!(kept.pass(60), []);
}

#[test]
fn proxy_that_does_not_reconnect_is_offline_after_the_settle_time() {
    let mut kept = settled();
    for n in 0..10 {
        kept.seen(&format!("p{n}"), left(10));
    }
    kept.now = 10_000;
    assert_eq!(kept.restart(true), []);
    assert!(kept.world.is_available("web"));
    let end = kept.keeper.next_tick().unwrap();
    assert_eq!(end, at(10_030));
    kept.pass(30);
    assert!(!kept.world.is_available("web"));
    assert_eq!(kept.world.counts("web"), [0, 0, 5]);
}

#[test]
fn unavailable_service_stays_unavailable_while_proxies_reconnect() {
    let mut kept = settled();
    for n in 0..10 {
        kept.seen(&format!("p{n}"), left(10));
    }
    kept.now = 10_000;
    kept.restart(false);
    for n in [0, 2, 4, 6, 8] {
        let sick = json!([{ "port": 80, "state": "NotReady", "tags": { "kuma.io/service": "web" } }]);
        kept.dataplane(&format!("p{n}"), &sick);
    }
    kept.settle();
    assert_eq!((kept.world.counts("web"), kept.world.is_available("web")), ([5, 0, 5], false));
    // Nor is one that is gone for one that comes back.
    kept.gone("p0");
    kept.settle();
    assert_eq!(kept.world.counts("web"), [4, 0, 4]);
}

#[test]
fn short_disconnect_changes_nothing() {
    let mut kept = settled();
    kept.seen("p0", left(0));
    assert_eq!(kept.settle(), []);
    assert_eq!(kept.pass(29), []);
    kept.seen("p0", ONLINE);
    assert_eq!(kept.settle(), []);
    assert_eq!(kept.pass(100), []);
    let looked = kept.keeper.work().services_looked_at;
    kept.seen("p0", left(kept.now));
    kept.pass(29);
    assert_eq!(kept.pass(1).len(), 1);
    assert_eq!(kept.world.counts("web"), [4, 4, 5]);
    // When it left, when it was given up, and when that was stored.
    assert_eq!(kept.keeper.work().services_looked_at - looked, 3);
}

#[test]
fn replacing_proxies_keeps_the_service_available() {
    let mut kept = settled();
    let before = kept.keeper.work();
    for n in 0..5 {
        let (old, new) = (format!("p{}", 2 * n), format!("green{n}"));
        kept.dataplane(&new, &serves(&[("web", 80)]));
        kept.settle();
        assert!(kept.world.is_available("web"));
        kept.seen(&new, ONLINE);
        kept.settle();
        kept.seen(&old, left(kept.now));
        kept.pass(5);
        assert!(kept.world.is_available("web"));
        kept.gone(&old);
        kept.settle();
        assert!(kept.world.is_available("web"));
    }
    let work = kept.keeper.work();
    // One more in total, one more connected, one less: three for each.
    assert_eq!((work.spec_writes - before.spec_writes, work.status_writes - before.status_writes), (0, 15));
}

#[test]
fn batched_changes_are_written_once() {
    let mut kept = Kept::new();
    for n in 0..50 {
        kept.serving(&format!("p{n}"), "web");
    }
    kept.settle();
    for n in 0..50 {
        kept.gone(&format!("p{n}"));
        kept.serving(&format!("q{n}"), "web");
    }
    assert_eq!(kept.settle(), []);
    for n in 0..50 {
        kept.seen(&format!("q{n}"), left(-100));
    }
    assert_eq!(kept.settle().len(), 2, "one of the spec, one of the status");
}

#[test]
fn service_without_proxies_is_unavailable_and_deleted_later() {
    let mut kept = settled();
    for n in [0, 2, 4, 6, 8] {
        kept.gone(&format!("p{n}"));
    }
    kept.settle();
    assert_eq!((kept.world.counts("web"), kept.world.is_available("web")), ([0, 0, 0], false));
    assert!(kept.world.spec("web").identities.is_some());
    kept.now += 100;
    assert_eq!(kept.restart(false), []);
    let vips = kept.world.status("web").vips.clone();
    kept.serving("p0", "web");
    kept.settle();
    assert_eq!((kept.world.counts("web"), &kept.world.status("web").vips), ([1, 1, 1], &vips));
    kept.gone("p0");
    kept.settle();
    kept.pass(3600);
    assert!(!kept.world.services.contains_key(&service("web")));
    assert_eq!(kept.pass(3600), []);
}

#[test]
fn disabled_mode_deletes_all_generated_services() {
    let mut kept = settled();
    kept.mesh(MeshServicesMode::Disabled, false);
    kept.settle();
    assert_eq!(kept.world.services.len(), 2);
    assert!(kept.world.is_available("web"));
    kept.pass(119);
    assert_eq!(kept.world.services.len(), 2);
    kept.pass(1);
    assert!(kept.world.services.is_empty());
    assert_eq!(kept.pass(10_000), []);
}

#[test]
fn deleted_mesh_gets_no_writes() {
    let mut kept = settled();
    kept.world.meshes.clear();
    kept.keeper.set_mesh(&name(MESH), None);
    kept.seen("p0", left(-100));
    assert_eq!(kept.pass(100), []);
    kept.keeper.set_vips(&name(MESH), None);
    for key in kept.world.services.clone().into_keys() {
        kept.delete(&key);
    }
    for n in 0..10 {
        kept.gone(&format!("p{n}"));
    }
    assert_eq!(kept.pass(100), []);
    assert!(kept.keeper.meshes.is_empty());
}
