//! Merging of confs.

use kodiak_model::policy::{Conf, ConfShape, Item, merge_into};
use serde_json::{Map, Value, json};

pub use kodiak_model::policy::merge as patch;

/// By the shape of the kind: one conf, or one for each hostname.
pub fn merge<'a>(shape: ConfShape, confs: impl IntoIterator<Item = &'a Conf>) -> Vec<Conf> {
    match shape {
        ConfShape::Default | ConfShape::FirstRule => vec![patch(confs)],
        ConfShape::Routes => by_hostname(confs),
    }
}

/// Conf of a `to` item. A route without rules forwards to its own destination.
pub(crate) fn conf_of(shape: ConfShape, item: &Item) -> Conf {
    if shape != ConfShape::FirstRule || !item.conf.json().is_null() {
        return item.conf.clone();
    }
    let mut backend = json!(item.target);
    backend["weight"] = json!(1);
    Conf::new(json!({ "default": { "backendRefs": [backend] } }))
}

/// In the order in which hostnames first occur. Rules without a hostname form a group of their own.
fn by_hostname<'a>(confs: impl IntoIterator<Item = &'a Conf>) -> Vec<Conf> {
    let mut hosts: Vec<(Option<&str>, Vec<&Value>)> = Vec::new();
    for conf in confs {
        let list = |field| conf.json().get(field).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut hostnames: Vec<Option<&str>> = list("hostnames").iter().map(Value::as_str).collect();
        if hostnames.is_empty() {
            hostnames.push(None);
        }
        for hostname in hostnames {
            let known = hosts.iter().position(|(known, _)| *known == hostname).unwrap_or_else(|| {
                hosts.push((hostname, Vec::new()));
                hosts.len() - 1
            });
            // The first rule of a policy has the highest precedence.
            hosts[known].1.extend(list("rules").iter().rev());
        }
    }
    let conf = |(hostname, rules): (Option<&str>, Vec<&Value>)| {
        let mut conf = Map::new();
        if let Some(hostname) = hostname {
            conf.insert("hostnames".to_owned(), json!([hostname]));
        }
        conf.insert("rules".to_owned(), by_matches(rules));
        Conf::new(Value::Object(conf))
    };
    hosts.into_iter().map(conf).collect()
}

/// Input in ascending, output in descending precedence, each rule at the position of its strongest version.
fn by_matches(rules: Vec<&Value>) -> Value {
    let mut merged: Vec<(&Value, Value)> = Vec::new();
    for rule in rules {
        let (matches, default) = (&rule["matches"], &rule["default"]);
        let known = merged.iter().position(|(known, _)| *known == matches);
        let mut conf = known.map_or_else(|| json!({}), |known| merged.remove(known).1);
        merge_into(&mut conf, default);
        merged.push((matches, conf));
    }
    merged.into_iter().rev().map(|(matches, conf)| json!({ "matches": matches, "default": conf })).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::{TCP_ROUTE, policy};

    fn merged(shape: ConfShape, confs: &[Value]) -> Vec<Value> {
        let confs: Vec<Conf> = confs.iter().cloned().map(Conf::new).collect();
        merge(shape, &confs).iter().map(|conf| conf.json().clone()).collect()
    }

    #[test]
    fn later_confs_override_field_by_field() {
        for (confs, expected) in [
            (vec![], json!({})),
            (vec![json!({ "a": 1 })], json!({ "a": 1 })),
            (
                vec![json!({ "a": 1, "b": { "c": 1, "d": 1 } }), json!({ "b": { "d": 2 } })],
                json!({ "a": 1, "b": { "c": 1, "d": 2 } }),
            ),
            (vec![json!({ "list": [1, 2] }), json!({ "list": [3] })], json!({ "list": [3] })),
            (vec![json!({ "list": [1, 2] }), json!({ "list": [] })], json!({ "list": [] })),
            (vec![json!({ "a": { "b": 1 } }), json!({ "a": 2 })], json!({ "a": 2 })),
            // Both branches of a choice stay; the policy with higher precedence decides which one applies.
            (
                vec![json!({ "type": "A", "a": { "x": 1 } }), json!({ "type": "B", "b": {} })],
                json!({ "type": "B", "a": { "x": 1 }, "b": {} }),
            ),
        ] {
            assert_eq!(merged(ConfShape::Default, &confs), [expected], "{confs:?}");
        }
    }

    #[test]
    fn append_fields_concatenate_in_ascending_precedence() {
        let confs = [
            json!({ "appendMatch": [1], "sidecar": { "appendProfiles": ["x"] } }),
            json!({ "appendMatch": [2, 1], "sidecar": { "appendProfiles": ["y"] }, "appendix": [1] }),
            json!({ "appendMatch": [], "appendix": [2] }),
        ];
        let expected = json!({
            "appendMatch": [1, 2, 1],
            "sidecar": { "appendProfiles": ["x", "y"] },
            "appendix": [2],
        });
        assert_eq!(merged(ConfShape::Default, &confs), [expected]);
    }

    fn route(path: &str, conf: &Value) -> Value {
        json!({ "matches": [{ "path": { "value": path, "type": "Exact" } }], "default": conf })
    }

    #[test]
    fn route_rules_merge_by_matches_and_highest_precedence_comes_first() {
        let weak =
            json!({ "rules": [route("/a", &json!({ "filters": [1], "backendRefs": [1] })), route("/b", &json!({}))] });
        let strong = json!({ "rules": [route("/c", &json!({})), route("/a", &json!({ "backendRefs": [2] }))] });
        let expected = json!({ "rules": [
            route("/c", &json!({})),
            route("/a", &json!({ "filters": [1], "backendRefs": [2] })),
            route("/b", &json!({})),
        ] });
        assert_eq!(merged(ConfShape::Routes, &[weak, strong]), [expected]);
    }

    #[test]
    fn each_hostname_of_a_route_has_its_own_conf() {
        let confs = [
            json!({ "hostnames": ["a.x", "b.x"], "rules": [route("/1", &json!({ "n": 1 }))] }),
            json!({ "rules": [route("/2", &json!({}))] }),
            json!({ "hostnames": ["b.x"], "rules": [route("/1", &json!({ "n": 2 }))] }),
        ];
        let expected = [
            json!({ "hostnames": ["a.x"], "rules": [route("/1", &json!({ "n": 1 }))] }),
            json!({ "hostnames": ["b.x"], "rules": [route("/1", &json!({ "n": 2 }))] }),
            json!({ "rules": [route("/2", &json!({}))] }),
        ];
        assert_eq!(merged(ConfShape::Routes, &confs), expected);
    }

    #[test]
    fn route_without_rules_forwards_to_its_destination() {
        let spec = json!({ "to": [
            { "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [] },
            { "targetRef": { "kind": "MeshService", "name": "web" }, "rules": [{ "default": {} }] },
        ] });
        let route = policy(&TCP_ROUTE, "route", &spec);
        let [first, second] = [0, 1].map(|n| conf_of(ConfShape::FirstRule, &route.body.to[n]).json().clone());
        let itself = json!([{ "kind": "MeshService", "name": "web", "weight": 1 }]);
        assert_eq!((first, second), (json!({ "default": { "backendRefs": itself } }), json!({ "default": {} })));
    }

    /// A field always has the same type, as in every kind.
    fn confs() -> impl Strategy<Value = Conf> {
        let scalar = |name: &'static str| (0..3_u8).prop_map(move |n| (name, json!(n))).boxed();
        let list =
            |name: &'static str| prop::collection::vec(0..3_u8, 0..3).prop_map(move |n| (name, json!(n))).boxed();
        let fields =
            move || prop::collection::vec(prop_oneof![scalar("a"), scalar("b"), list("c"), list("appendD")], 0..4);
        (fields(), prop::option::of(fields())).prop_map(|(fields, inner)| {
            let object = |fields: Vec<(&str, Value)>| -> Value { fields.into_iter().collect() };
            let inner = inner.map(|fields| ("inner", object(fields)));
            Conf::new(object(fields.into_iter().chain(inner).collect()))
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn merging_is_associative(a in confs(), b in confs(), c in confs()) {
            let all = patch([&a, &b, &c]);
            prop_assert_eq!(&all, &patch([&patch([&a, &b]), &c]));
            prop_assert_eq!(&all, &patch([&a, &patch([&b, &c])]));
        }
    }
}
