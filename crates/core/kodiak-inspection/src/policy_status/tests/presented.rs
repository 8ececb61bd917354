//! Callers by SPIFFE IDs that exist, or not.

use serde_json::json;

use super::{FAULT, PERMISSION, World, shown};
use crate::policy_status::State;

#[test]
fn spiffe_id_that_no_dataplane_presents_is_named_with_the_closest_one() {
    let mut world = World::new().with_mtls();
    let id = |how: &str, value: &str| json!({ "spiffeID": { "type": how, "value": value } });
    let allow = json!([
        id("Exact", "spiffe://default.local/workload/web"),
        id("Prefix", "spiffe://default"),
        id("Prefix", "spiffe://default/w"),
        id("Exact", "spiffe://default/db"),
        json!({}),
    ]);
    let permission = world.add(&PERMISSION, "allow", &json!({ "rules": [{ "default": { "allow": allow } }] }));
    let at = |n: u32, text: &str| format!("NoClientPresentsIt spec.rules[0].default.allow[{n}].spiffeID: {text} []");
    let expected = vec![
        at(
            0,
            "no Dataplane of the mesh presents spiffe://default.local/workload/web; the closest that exists is \
             spiffe://default/web",
        ),
        at(
            2,
            "no Dataplane of the mesh presents a SPIFFE ID below spiffe://default/w; the closest that exists is \
             spiffe://default/db",
        ),
    ];
    assert_eq!(shown(&world.status(&permission)), (State::Partly, 2, expected));
    let matches = json!([id("Exact", "spiffe://default/wed")]);
    let fault = world.add(&FAULT, "fault", &json!({ "rules": [{ "matches": matches, "default": { "a": 1 } }] }));
    let (state, _, reasons) = shown(&world.status(&fault));
    assert_eq!(state, State::Partly);
    assert!(reasons[0].starts_with("NoClientPresentsIt spec.rules[0].matches[0].spiffeID: "), "{reasons:?}");
    // A Dataplane comes that presents it.
    world.service("wed-1", "wed");
    assert_eq!(world.status(&fault).state, State::InForce);
}
