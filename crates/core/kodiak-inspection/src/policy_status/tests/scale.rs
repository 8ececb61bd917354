//! Many policies and many proxies.

use super::*;
use crate::policy_status::of_all;

#[test]
fn proxies_are_matched_once_for_all_policies_of_a_kind() {
    let mut world = World::default();
    for n in 0..200 {
        world.service(&format!("proxy-{n}"), &format!("service-{n}"));
    }
    for n in 0..200 {
        let target = dataplane(&format!("service-{n}"));
        world.add(&TIMEOUT, &format!("own-{n}"), &json!({ "targetRef": target, "rules": [{ "default": { "a": n } }] }));
    }
    for n in 0..50 {
        world.add(&TIMEOUT, &format!("all-{n}"), &json!({ "to": to_service(&format!("service-{n}"), "a", 1) }));
    }
    let before = world.policy_index.looked_at();
    let policies: Vec<Arc<Policy>> = world.policy_index.policies().cloned().collect();
    let statuses = of_all(&policies, world.context(), &kodiak_model::Cancellation::never()).unwrap();
    // Each proxy with its own policy and those that are for all.
    assert_eq!(world.policy_index.looked_at() - before, 200 * 51);
    assert!(statuses.iter().all(|status| status.state == State::InForce));
    assert_eq!(statuses.iter().map(|status| status.proxies).sum::<usize>(), 200 + 50 * 200);
}
