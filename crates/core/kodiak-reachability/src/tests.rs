//! The graph follows the permissions, however it came about.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_model::policy::Body;
use kodiak_policies::{
    Entry,
    mesh_traffic_permission::{Action, KIND, Permissions, uris},
};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};

use super::*;

const MESH: &str = "default";

fn permissions(specs: &[Value]) -> Arc<AnyOf> {
    Arc::new(one(specs).into())
}

fn one(specs: &[Value]) -> Arc<Permissions> {
    let mut entries = Vec::new();
    for (n, spec) in specs.iter().enumerate() {
        let body = Body::read(&KIND.policy.unwrap(), spec).unwrap();
        entries.extend(Entry::of(&n.to_string().into(), &body));
    }
    Arc::new(Permissions::of(&entries))
}

fn from(items: &[(Value, &str)]) -> Value {
    let items = items.iter().map(|(target, action)| json!({ "targetRef": target, "default": { "action": action } }));
    json!({ "from": items.collect::<Vec<_>>() })
}

fn tagged(pairs: &[(&str, &str)]) -> Certificate {
    let tags: BTreeMap<String, String> =
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    uris(MESH, &[tags]).into()
}

fn service(name: &str) -> Value {
    json!({ "kind": "MeshService", "name": name })
}

type TestGraph = Graph<&'static str, u32>;

#[test]
fn allows_the_callers_that_a_permission_names() {
    let mut graph = TestGraph::new(MESH.into());
    for client in ["a", "b", "c"] {
        graph.set_client(&client, Some(&[tagged(&[("kuma.io/service", client)])]));
    }
    let only = permissions(&[from(&[(service("a"), "Allow"), (service("b"), "Deny")])]);
    let effect = graph.set_destination(&1, Some(&Admission::By(vec![only])));
    assert_eq!(graph.clients(&effect.affected), ["a"].iter().collect());
    assert_eq!(graph.may(&"a", &1), Answer::Yes(Yes::Allowed { policy: "0".to_owned() }));
    assert_eq!(graph.may(&"b", &1), Answer::No(No::Denied { policy: "0".to_owned() }));
    assert_eq!(graph.may(&"c", &1), Answer::No(No::NotAllowed));
    assert_eq!(graph.may(&"nobody knows", &1), Answer::Yes(Yes::Unknown));
    assert_eq!(graph.may(&"a", &2), Answer::Yes(Yes::Unknown));
}

#[test]
fn denial_at_one_inbound_does_not_remove_the_destination() {
    let mut graph = TestGraph::new(MESH.into());
    graph.set_client(&"a", Some(&[tagged(&[("kuma.io/service", "a")])]));
    let everybody = from(&[(json!({ "kind": "Mesh" }), "Allow")]);
    let (open, closed) =
        (permissions(std::slice::from_ref(&everybody)), permissions(&[everybody, from(&[(service("a"), "Deny")])]));
    graph.set_destination(&1, Some(&Admission::By(vec![open, closed.clone()])));
    graph.set_destination(&2, Some(&Admission::By(vec![closed])));
    assert!(graph.may(&"a", &1).is_yes() && !graph.may(&"a", &2).is_yes());
    assert_eq!(graph.destinations(&"a"), [1].iter().collect());
}

#[test]
fn equal_permissions_are_one_set() {
    let mut graph = Graph::<u32, u32>::new(MESH.into());
    for n in 0..1000 {
        graph.set_client(&n, Some(&[tagged(&[("kuma.io/service", &n.to_string())])]));
    }
    for n in 0..1000 {
        let own = from(&[(json!({ "kind": "Mesh" }), "Allow"), (service("none"), ["Deny", "Allow"][n as usize % 2])]);
        graph.set_destination(&n, Some(&Admission::By(vec![permissions(&[own])])));
    }
    let (identities, distinct, sets, bytes) = graph.size();
    assert_eq!((identities, distinct, sets), (1000, 2, 2));
    assert!(bytes < 100, "{bytes}");
    assert_eq!(graph.destinations(&7).len(), 1000);
}

#[test]
fn equal_permissions_of_several_policies_are_one_set_and_keep_their_names() {
    let mut graph = TestGraph::new(MESH.into());
    graph.set_client(&"a", Some(&[tagged(&[("kuma.io/service", "a")])]));
    let allow = from(&[(service("a"), "Allow")]);
    for n in 0..3 {
        let mut specs = vec![json!({}); n as usize];
        specs.push(allow.clone());
        graph.set_destination(&n, Some(&Admission::By(vec![permissions(&specs)])));
    }
    let (_, distinct, sets, _) = graph.size();
    assert_eq!((distinct, sets), (1, 1));
    for n in 0..3 {
        assert_eq!(graph.may(&"a", &n), Answer::Yes(Yes::Allowed { policy: n.to_string() }));
    }
}

#[test]
fn permissions_that_many_destinations_may_have_are_evaluated_once() {
    let mut graph = Graph::<u32, u32>::new(MESH.into());
    let allow = |n: u32| one(&[from(&[(service(&n.to_string()), "Allow")])]);
    let shared = Arc::new(AnyOf::of((0..100).map(allow)));
    for n in 0..100 {
        graph.set_destination(&n, Some(&Admission::By(vec![shared.clone()])));
    }
    assert_eq!((graph.size().1, graph.size().2), (101, 1), "each one, and all of them");
    graph.set_client(&7, Some(&[tagged(&[("kuma.io/service", "7")])]));
    assert_eq!(graph.destinations(&7).len(), 100);
    for n in 0..100 {
        graph.set_destination(&n, None);
    }
    assert_eq!((graph.size().1, graph.size().2), (0, 0));
}

#[test]
fn client_with_several_certificates_is_admitted_by_any_of_them() {
    let mut graph = TestGraph::new(MESH.into());
    let spiffe: Certificate = ["spiffe://trust.example/ns/shop/sa/web".to_owned()].into();
    graph.set_client(&"web", Some(&[tagged(&[("kuma.io/service", "web")]), spiffe]));
    let prefix = json!({ "spiffeID": { "type": "Prefix", "value": "spiffe://trust.example/ns/shop" } });
    let rules = json!({ "rules": [{ "default": { "allow": [prefix] } }] });
    graph.set_destination(&1, Some(&Admission::By(vec![permissions(&[rules])])));
    assert!(graph.may(&"web", &1).is_yes());
    graph.set_client(&"web", Some(&[tagged(&[("kuma.io/service", "web")])]));
    assert_eq!(graph.destinations(&"web").len(), 0);
}

#[test]
fn unknown_sni_counts_in_the_favour_of_the_caller() {
    let mut graph = TestGraph::new(MESH.into());
    graph.set_client(&"web", Some(&[tagged(&[("kuma.io/service", "web")])]));
    let sni = json!({ "sni": { "type": "Exact", "value": "a.example" } });
    let rules = json!({ "rules": [{ "default": { "deny": [sni], "allow": [sni] } }] });
    graph.set_destination(&1, Some(&Admission::By(vec![permissions(&[rules])])));
    assert!(graph.may(&"web", &1).is_yes());
    assert_eq!(graph.destinations(&"web").len(), 1);
}

#[derive(Debug, Clone)]
enum Edit {
    Client(&'static str, Option<Vec<Certificate>>),
    Destination(u32, Option<Vec<Vec<Value>>>),
    Open(u32),
}

fn certificate() -> impl Strategy<Value = Certificate> {
    let tag = |values: &'static [&'static str]| select(values);
    prop_oneof![
        (tag(&["a", "b", "c"]), tag(&["dev", "prod"]))
            .prop_map(|(service, env)| tagged(&[("kuma.io/service", service), ("env", env)])),
        select(&["spiffe://td/ns/x/sa/a", "spiffe://td/ns/x/sa/b", "spiffe://td/ns/y/sa/a", "spiffe://other/a"][..])
            .prop_map(|id| [id.to_owned()].into()),
    ]
}

fn spec() -> impl Strategy<Value = Value> {
    let target = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        select(&["a", "b", "c"][..]).prop_map(service),
        select(&["dev", "prod", "*"][..]).prop_map(|env| json!({ "kind": "MeshSubset", "tags": { "env": env } })),
        (select(&["a", "b"][..]), select(&["dev", "prod"][..]))
            .prop_map(|(name, env)| json!({ "kind": "MeshServiceSubset", "name": name, "tags": { "env": env } })),
    ];
    let action = select(&["Allow", "Deny", "AllowWithShadowDeny"][..]);
    let items = vec((target, action), 0..4).prop_map(|items| from(&items));
    let values = ["spiffe://td/ns/x/sa/a", "spiffe://td/ns/x", "spiffe://td", "spiffe://default/a"];
    let id =
        (select(&["Exact", "Prefix"][..]), select(values.to_vec()), any::<bool>()).prop_map(|(form, value, sni)| {
            let mut one = json!({ "spiffeID": { "type": form, "value": value } });
            if sni {
                one["sni"] = json!({ "type": "Exact", "value": "a.example" });
            }
            one
        });
    let list = move || vec(prop_oneof![4 => id.clone(), 1 => Just(json!({}))], 0..3);
    let rules = (list(), list(), list()).prop_map(|(deny, shadow, allow)| {
        json!({ "rules": [{ "default": { "deny": deny, "allowWithShadowDeny": shadow, "allow": allow } }] })
    });
    prop_oneof![items, rules]
}

fn edit() -> impl Strategy<Value = Edit> {
    let client = select(&["1", "2", "3", "4"][..]);
    prop_oneof![
        4 => (client, prop::option::weighted(0.8, vec(certificate(), 0..3))).prop_map(|(name, certificates)| Edit::Client(name, certificates)),
        4 => (0..4_u32, prop::option::weighted(0.8, vec(vec(spec(), 0..3), 0..3))).prop_map(|(key, all)| Edit::Destination(key, all)),
        1 => (0..4_u32).prop_map(Edit::Open),
    ]
}

/// Permissions of the first inbound are known. The others are those that a second one may have.
fn admission(all: &[Vec<Value>]) -> Admission {
    let Some((first, others)) = all.split_first() else { return Admission::By(Vec::new()) };
    let any = AnyOf::of(others.iter().map(|specs| one(specs)));
    Admission::By(vec![permissions(first), Arc::new(any)])
}

proptest! {
    #[test]
    fn graph_equals_the_evaluator_after_any_history(edits in vec(edit(), 1..30)) {
        let mut graph = TestGraph::new(MESH.into());
        let (mut clients, mut destinations) = (BTreeMap::new(), BTreeMap::new());
        for edit in edits {
            let groups = |graph: &TestGraph| -> BTreeMap<&'static str, Option<Vec<SetId>>> {
                ["1", "2", "3", "4"].into_iter().map(|name| (name, graph.sets_of_client(&name))).collect()
            };
            let before = groups(&graph);
            let moved = |graph: &TestGraph| -> Vec<&'static str> {
                groups(graph).into_iter().filter(|(name, sets)| before[name] != *sets).map(|(name, _)| name).collect()
            };
            match edit {
                Edit::Client(name, certificates) => {
                    graph.set_client(&name, certificates.as_deref());
                    prop_assert!(moved(&graph).iter().all(|other| *other == name), "other clients stay in their sets");
                    match certificates {
                        Some(certificates) => drop(clients.insert(name, certificates)),
                        None => drop(clients.remove(name)),
                    }
                }
                Edit::Destination(key, None) => {
                    let effect = graph.set_destination(&key, None);
                    prop_assert!(moved(&graph).iter().all(|name| graph.clients(&effect.regrouped).contains(name)));
                    destinations.remove(&key);
                }
                Edit::Destination(key, Some(all)) => {
                    let admission = admission(&all);
                    let before: BTreeMap<_, _> = clients.keys().map(|name| (*name, graph.destinations(name).contains(&key))).collect();
                    let effect = graph.set_destination(&key, Some(&admission));
                    let changed = before.into_iter().filter(|(name, was)| graph.destinations(name).contains(&key) != *was);
                    let changed: Vec<_> = changed.map(|(name, _)| name).collect();
                    let affected = graph.clients(&effect.affected);
                    prop_assert!(changed.iter().all(|name| affected.contains(name)), "{changed:?} in {affected:?}");
                    prop_assert!(moved(&graph).iter().all(|name| graph.clients(&effect.regrouped).contains(name)));
                    destinations.insert(key, admission);
                }
                Edit::Open(key) => {
                    graph.set_destination(&key, Some(&Admission::Open));
                    destinations.insert(key, Admission::Open);
                }
            }
        }
        let mut scratch = TestGraph::new(MESH.into());
        for (key, admission) in &destinations {
            scratch.set_destination(key, Some(admission));
        }
        for (name, certificates) in &clients {
            scratch.set_client(name, Some(certificates));
        }
        for (name, certificates) in &clients {
            for (key, admission) in &destinations {
                let expected = match admission {
                    Admission::Open => true,
                    Admission::By(_) if certificates.is_empty() => continue,
                    Admission::By(all) => certificates.iter().any(|certificate| {
                        all.iter().flat_map(|any| any.permissions()).any(|one| one.possible(MESH, certificate).action != Action::Deny)
                    }),
                };
                prop_assert_eq!(graph.destinations(name).contains(key), expected, "{} {}", name, key);
                prop_assert_eq!(scratch.destinations(name).contains(key), expected, "{} {}", name, key);
                if !matches!(admission, Admission::Open) {
                    prop_assert_eq!(graph.may(name, key).is_yes(), expected);
                }
            }
        }
        prop_assert_eq!(graph.size().1, scratch.size().1);
        prop_assert_eq!(graph.size().2, scratch.size().2);
    }
}
