//! MeshProxyPatches that proxies cannot apply.

use std::collections::BTreeMap;

use kodiak_policies::mesh_proxy_patch;
use serde_json::json;

use super::*;
use crate::policy_status::ProxyProblems;

#[test]
fn proxies_that_keep_their_last_good_configuration_are_reported() {
    let mut world = World::default();
    for name in ["a", "b", "c"] {
        world.service(name, name);
    }
    let modifications = json!([{ "listener": { "operation": "Remove" } }]);
    let policy =
        world.add(&mesh_proxy_patch::KIND, "p", &json!({ "default": { "appendModifications": modifications } }));
    let fault = |policy: &str| format!("MeshProxyPatch {policy:?}: spec.default.appendModifications[0].listener: no");
    let status = |problems: &[(&str, ProxyProblems)]| {
        let problems: BTreeMap<&str, ProxyProblems> = problems.iter().cloned().collect();
        world.status(&policy).with_problems(&policy, &world.policy_index, |name| problems.get(name).cloned())
    };
    let invalid = |policy: &str| ProxyProblems { faults: vec![fault(policy)], ..ProxyProblems::default() };
    let rejected = |short| ProxyProblems { rejected: vec![(short, "bad".to_owned())], ..ProxyProblems::default() };

    let found = status(&[("a", ProxyProblems::default())]);
    assert_eq!((found.state, found.proxies, found.reasons.len()), (State::InForce, 3, 0));
    // Another policy, or resources that this policy does not change.
    let found = status(&[("a", invalid("q")), ("b", rejected("cds"))]);
    assert_eq!((found.state, found.proxies), (State::InForce, 3));
    let found = status(&[("a", invalid("p")), ("b", rejected("lds"))]);
    assert_eq!((found.state, found.proxies), (State::Partly, 1));
    let reasons: Vec<_> = found.reasons.iter().map(|reason| (reason.reason, reason.message.clone())).collect();
    assert_eq!(
        reasons,
        [
            (
                Why::FailedValidation,
                format!(
                    "on 1 of 3 proxies, the patched configuration fails validation, and what failed stays at its last good version; a: {}",
                    fault("p")
                )
            ),
            (
                Why::Rejected,
                "on 1 of 3 proxies, Envoy rejects the patched configuration, and what failed stays at its last good version; b: bad"
                    .to_owned()
            ),
        ]
    );
    let all = status(&["a", "b", "c"].map(|name| (name, invalid("p"))));
    assert_eq!((all.state, all.proxies), (State::NotInForce, 0));
}
