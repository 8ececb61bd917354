//! Property: removing a policy that is not in force changes no configuration.

use kodiak_model::{Kri, policy::Conf, tags::SERVICE};
use kodiak_rules::{Shadow, inbound, outbound, route_hash, subset};
use proptest::prelude::*;
use proptest::sample::select as one_of;

use super::*;

/// A question, and what was said.
type Answer = (String, Vec<Conf>);

/// All that proxies are told, by the name of the proxy.
fn meaning(world: &World) -> BTreeMap<Arc<str>, Vec<Answer>> {
    world.proxies.keys().map(|name| (name.clone(), at(world, name))).collect()
}

/// Merged configuration of each destination, of each caller and of the proxy.
fn at(world: &World, proxy: &str) -> Vec<Answer> {
    let mut answers = Vec::new();
    for kind in IN_FORCE {
        let mut add = |question: String, confs: Vec<Conf>| answers.push((format!("{kind} {question}"), confs));
        let matched = world.policy_index.matched(kind, proxy, Shadow::Ignored);
        if *kind == TRACE.name {
            add("whole".to_owned(), subset::single(&matched.proxy).map(|rule| rule.conf).into_iter().collect());
            continue;
        }
        for tags in &tag_sets() {
            let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let rules = subset::for_destination(&matched.proxy, &world.resources, &tags).unwrap();
            add(format!("to {tags:?}"), rules.into_iter().map(|rule| rule.conf).collect());
        }
        let rules = outbound::rules(&matched.proxy, &world.resources);
        for kri in destinations() {
            add(format!("to {kri}"), outbound::find(&rules, &kri).map_or_else(Vec::new, |rule| rule.confs.clone()));
        }
        for (n, policies) in &matched.inbounds {
            let rules = inbound::rules(policies);
            for rule in rules.iter().filter(|rule| rule.matches.is_some()) {
                add(format!("at {n} from {:?}", rule.matches), vec![rule.conf.clone()]);
            }
            add(format!("at {n} from everybody"), inbound::for_everybody(&rules).into_iter().collect());
            let is_by_tags = policies.iter().all(|policy| policy.body.rules.is_empty());
            for tags in tag_sets().iter().filter(|_| is_by_tags && *kind == FAULT.name) {
                let tags: Vec<(&str, &str)> = tags.iter().map(|(key, value)| (*key, value.as_str())).collect();
                let rule = subset::for_caller(policies, &tags).unwrap();
                add(format!("at {n} from {tags:?}"), rule.map(|rule| rule.conf).into_iter().collect());
            }
        }
    }
    // What nobody says anything about, is not said to be so.
    answers.retain(|(_, confs)| !confs.is_empty());
    answers
}

fn tag_sets() -> Vec<Vec<(&'static str, String)>> {
    let mut all = vec![vec![]];
    for service in ["web", "db", "other"] {
        let service = || (SERVICE, service.to_owned());
        let version = ("version", "1".to_owned());
        all.extend([vec![service()], vec![service(), version.clone()]]);
        all.push(vec![service(), (subset::ROUTE_HASH, route_hash(&matches()))]);
    }
    all
}

fn destinations() -> Vec<Kri> {
    let service = |name: &str, section: &str| {
        let kri = Kri::of(&mesh_service::KIND, "default", name, &Labels::new()).unwrap();
        Kri { section: section.to_owned(), ..kri }
    };
    vec![
        Kri::of(&mesh::KIND, "", "default", &Labels::new()).unwrap(),
        service("web", ""),
        service("web", "http"),
        service("db", ""),
        service("db", "http"),
    ]
}

fn matches() -> Value {
    json!([{ "path": { "type": "Exact", "value": "/" } }])
}

fn confs() -> impl Strategy<Value = Value> {
    let field = |name: &'static str| (0..2_u8).prop_map(move |n| (name, json!(n))).boxed();
    let inner = (0..2_u8).prop_map(|n| ("c", json!({ "d": n }))).boxed();
    let fields = prop::collection::vec(prop_oneof![field("a"), field("b"), inner], 0..3);
    fields.prop_map(|fields| fields.into_iter().collect())
}

fn destination_targets() -> impl Strategy<Value = Value> {
    one_of(vec![
        json!({ "kind": "Mesh" }),
        json!({ "kind": "MeshService", "name": "web" }),
        json!({ "kind": "MeshService", "name": "web", "sectionName": "http" }),
        json!({ "kind": "MeshService", "labels": { "team": "db" } }),
        json!({ "kind": "MeshService", "name": "nobody" }),
        json!({ "kind": "MeshServiceSubset", "name": "web", "tags": { "version": "1" } }),
        json!({ "kind": "MeshSubset", "tags": { "version": "1" } }),
    ])
}

fn items(targets: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
    let item = (targets, confs()).prop_map(|(target, conf)| json!({ "targetRef": target, "default": conf }));
    prop::collection::vec(item, 0..3)
}

fn rules() -> impl Strategy<Value = Vec<Value>> {
    let matches =
        one_of(vec![json!([]), json!([]), json!([{ "spiffeID": { "type": "Exact", "value": "spiffe://a/b" } }])]);
    let rule = (matches, confs()).prop_map(|(matches, conf)| json!({ "matches": matches, "default": conf }));
    prop::collection::vec(rule, 0..2)
}

fn tops() -> impl Strategy<Value = Value> {
    one_of(vec![
        json!({ "kind": "Mesh" }),
        dataplane("web"),
        json!({ "kind": "Dataplane", "name": "web-1" }),
        json!({ "kind": "MeshService", "name": "db" }),
        json!({ "kind": "MeshHTTPRoute", "name": "route" }),
    ])
}

fn specs() -> impl Strategy<Value = (usize, Value)> {
    let from = one_of(vec![
        json!({ "kind": "Mesh" }),
        json!({ "kind": "MeshService", "name": "web" }),
        json!({ "kind": "MeshSubset", "tags": { "version": "1" } }),
    ]);
    let lists = (one_of(vec![0_usize, 1]), tops(), items(destination_targets()), items(from), rules());
    let with_lists = lists.prop_map(|(kind, top, to, from, rules)| {
        (kind, json!({ "targetRef": top, "to": to, "from": from, "rules": rules }))
    });
    let whole = (tops(), confs()).prop_map(|(top, conf)| (2, json!({ "targetRef": top, "default": conf })));
    prop_oneof![3 => with_lists, 1 => whole]
}

fn world(specs: &[(usize, Value)]) -> (World, Vec<Arc<Policy>>) {
    let mut world = World::new().with_mtls();
    let rule = json!({ "matches": matches(), "default": {} });
    let route = json!({ "to": [{ "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [rule] }] });
    world.add(&ROUTE, "route", &route);
    let add = |(n, (kind, spec)): (usize, &(usize, Value))| {
        world.add([&TIMEOUT, &FAULT, &TRACE][*kind], &format!("p-{n}"), spec)
    };
    let policies = specs.iter().enumerate().map(add).collect();
    (world, policies)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn removing_a_policy_changes_only_counted_proxies(specs in prop::collection::vec(specs(), 1..6)) {
        let (mut world, policies) = world(&specs);
        let before = meaning(&world);
        for policy in policies {
            let status = world.status(&policy);
            let key = (policy.kind.name, policy.name.clone());
            world.policy_index.set_policy(&key, None);
            let after = meaning(&world);
            world.policy_index.set_policy(&key, Some(policy.clone()));
            let changed: Vec<_> = before.iter().filter(|(name, told)| after[*name] != **told).collect();
            prop_assert!(changed.len() <= status.proxies, "{status:?} without {policy:?}: {changed:?}");
            prop_assert_eq!(status.state == State::NotInForce, status.proxies == 0);
            prop_assert!(status.state == State::InForce || !status.reasons.is_empty(), "{:?}", status);
        }
    }
}
