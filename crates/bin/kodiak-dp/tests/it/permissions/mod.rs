//! The real Envoy lets in whom the verdict lets in, whatever the policies and whoever calls.

mod echo;
mod listeners;
mod samples;
mod tls;

use std::sync::Arc;

use kodiak_model::policy::Body;
use kodiak_policies::mesh_traffic_permission::{Action, Caller, KIND, MeshTrafficPermission, Permissions};
use kodiak_policies::{Entry, Source};
use kodiak_testkit::envoy::envoy;
use proptest::strategy::{Strategy, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::json;

use crate::running::Running;
use echo::Echo;
use listeners::{bootstrap, http_name, tcp_name};
use samples::{MESH, Someone};
use tls::{Authority, Client};

/// Each is two listeners, one that speaks HTTP and one that does not.
const SETS: usize = 48;
const CALLERS: usize = 8;

/// The same ones in each run.
fn sample<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> S::Value {
    strategy.new_tree(runner).unwrap().current()
}

/// What is allowed and what is denied take turns, as often as Envoy's parser will see it.
fn long() -> Vec<MeshTrafficPermission> {
    let item = |n: usize| {
        let name = samples::SERVICES.get(n % 50).map_or_else(|| format!("s{n}"), |name| (*name).to_owned());
        let action = ["Allow", "Deny", "AllowWithShadowDeny"][n % 7 % 3];
        json!({ "targetRef": { "kind": "MeshService", "name": name }, "default": { "action": action } })
    };
    vec![serde_json::from_value(json!({ "from": (0..1000).map(item).collect::<Vec<_>>() })).unwrap()]
}

fn permissions(policies: &[MeshTrafficPermission]) -> Permissions {
    let mut entries = Vec::new();
    for (n, policy) in policies.iter().enumerate() {
        let body = Body::read(&KIND.policy.unwrap(), &serde_json::to_value(policy).unwrap()).unwrap();
        let from = body.from.into_iter().map(|item| (Source::From(item.target), item.conf));
        let rules = body.rules.into_iter().map(|item| (Source::Matches(item.matches), item.conf));
        let policy: Arc<str> = format!("kri_mtp_{MESH}___policy-{n}_").into();
        entries.extend(from.chain(rules).map(|(source, conf)| Entry { policy: Arc::clone(&policy), source, conf }));
    }
    Permissions::of(&entries)
}

#[test]
fn envoy_lets_in_whom_the_verdict_lets_in() {
    let Some(envoy) = envoy() else { return };
    let mut runner = TestRunner::deterministic();
    let random = (0..SETS).map(|_| sample(&samples::policies(), &mut runner));
    let sets: Vec<_> = [Vec::new(), long()].into_iter().chain(random).collect();
    let sets: Vec<_> = sets.iter().map(|policies| (policies, permissions(policies))).collect();
    let callers: Vec<_> = (0..CALLERS).map(|_| sample(&samples::someone(), &mut runner)).collect();

    let (authority, echo) = (Authority::new(), Echo::start());
    let clients: Vec<Client> = callers.iter().map(|someone| authority.client(&someone.uris)).collect();
    let all: Vec<_> = sets.iter().map(|(_, permissions)| permissions).collect();
    let running = Running::start(envoy, &bootstrap(&all, &authority, echo.port()));
    running.wait_until_live();

    let mut seen = Vec::new();
    for (n, (policies, permissions)) in sets.iter().enumerate() {
        let (http, tcp) = (running.listener(&http_name(n)), running.listener(&tcp_name(n)));
        let mut noted = 0;
        for (Someone { uris, sni }, client) in callers.iter().zip(&clients) {
            let verdict = permissions.verdict(MESH, &Caller { uris, sni: *sni });
            let expected = if verdict.action == Action::Deny { 403 } else { 200 };
            let what = format!("{uris:?} {sni:?}: {verdict:?} by {policies:#?}");
            assert_eq!(client.get(&http, *sni).0, expected, "{what}");
            assert_eq!(client.echoes(&tcp, *sni), expected == 200, "{what}");
            noted += u64::from(verdict.action == Action::AllowWithShadowDeny);
            seen.push(verdict.action);
        }
        for stat in [format!("http.{}.rbac.shadow_denied", http_name(n)), format!("{}.rbac.shadow_denied", tcp_name(n))]
        {
            assert_eq!(running.counter(&stat), noted, "{stat}: {policies:#?}");
        }
    }
    for action in [Action::Allow, Action::Deny, Action::AllowWithShadowDeny] {
        let share = seen.iter().filter(|each| **each == action).count();
        assert!(share * 10 > seen.len(), "only {share} of {} verdicts are {action:?}", seen.len());
    }
}

/// The name of the policy that denies is in what Envoy tells of the call.
#[test]
fn envoy_says_which_policy_denies() {
    let Some(envoy) = envoy() else { return };
    let rule = json!({ "default": { "allow": [{}], "deny": [{ "spiffeID": { "type": "Exact", "value": "spiffe://default/a" } }] } });
    let policy: MeshTrafficPermission = serde_json::from_value(json!({ "rules": [rule] })).unwrap();
    let (authority, echo) = (Authority::new(), Echo::start());
    let running = Running::start(envoy, &bootstrap(&[&permissions(&[policy])], &authority, echo.port()));
    running.wait_until_live();
    let http = running.listener(&http_name(0));
    let get = |service: &str| authority.client(&[format!("spiffe://default/{service}")]).get(&http, None);
    assert_eq!(get("a"), (403, "rbac_access_denied_matched_policy[kri_mtp_default___policy-0_]".to_owned()));
    assert_eq!(get("b"), (200, "direct_response".to_owned()));
}
