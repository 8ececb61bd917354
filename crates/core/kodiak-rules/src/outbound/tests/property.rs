//! The rule of a destination equals the naive evaluation of all items.

use kodiak_model::{Kind, LegacyNames, kinds::mesh_external_service, labels::Labels};
use proptest::{
    prelude::*,
    sample::{select, subsequence},
};

use super::*;
use crate::merge::{conf_of, merge};

fn targets() -> impl Strategy<Value = Value> {
    let section = || prop::option::of(select(vec!["http", "90", "80"]));
    let with_section = |mut target: Value, section: Option<&str>| {
        if let Some(section) = section {
            target["sectionName"] = json!(section);
        }
        target
    };
    let known = select(vec!["plain", "web", "nobody", "web_shop_svc_80", "web_shop_svc", "web_shop_svc_81", "a_b_c_d"]);
    let named = (known, prop::option::of(Just("shop")), section()).prop_map(move |(name, namespace, section)| {
        let mut target = json!({ "kind": "MeshService", "name": name });
        if let Some(namespace) = namespace {
            target["namespace"] = json!(namespace);
        }
        with_section(target, section)
    });
    let all = vec![("team", "a"), ("team", "b"), ("kuma.io/display-name", "web"), ("k8s.kuma.io/namespace", "shop")];
    let kinds = select(vec!["MeshService", "MeshExternalService", "MeshHTTPRoute"]);
    let labelled = (kinds, subsequence(all, 1..3), section()).prop_map(move |(kind, pairs, section)| {
        with_section(json!({ "kind": kind, "labels": labels(&pairs) }), section.filter(|_| kind == "MeshService"))
    });
    let fixed = [
        json!({ "kind": "Mesh" }),
        json!({ "kind": "MeshExternalService", "name": "far" }),
        json!({ "kind": "MeshHTTPRoute", "name": "route" }),
        json!({ "kind": "MeshSubset", "tags": { "team": "a" } }),
        json!({ "kind": "MeshServiceSubset", "name": "plain", "tags": {} }),
    ];
    prop_oneof![4 => named, 3 => labelled, 3 => select(fixed.to_vec())]
}

/// Of one kind, with different names. Confs differ in every item, and show their order.
fn policies(kinds: &[&'static Kind]) -> impl Strategy<Value = Vec<Arc<Policy>>> + use<> {
    let places = select(vec![
        vec![],
        vec![("kuma.io/zone", "east"), ("k8s.kuma.io/namespace", "shop")],
        vec![("kuma.io/zone", "east"), ("k8s.kuma.io/namespace", "other"), ("kuma.io/policy-role", "consumer")],
        vec![("kuma.io/origin", "global")],
    ]);
    let tops = select(vec![json!({ "kind": "Mesh" }), json!({ "kind": "MeshSubset", "tags": {} })]);
    let for_route = prop::bool::weighted(0.1);
    let policy = (places, tops, for_route, prop::collection::vec(targets(), 0..4));
    (select(kinds.to_vec()), prop::collection::vec(policy, 0..6)).prop_map(|(kind, parts)| {
        let made = parts.into_iter().enumerate().map(|(n, (place, top, for_route, targets))| {
            let top = if for_route { json!({ "kind": "MeshHTTPRoute", "name": "route" }) } else { top };
            let items = targets.iter().enumerate().map(|(index, target)| {
                let id = 10 * n + index;
                let conf = json!({ "a": { "b": id, "c": id }, "appendIds": [id], format!("of{id}"): id });
                let matches = json!([{ "path": { "value": format!("/{}", id % 4) } }]);
                json!({ "targetRef": target, "default": conf, "rules": [{ "matches": matches, "default": conf }] })
            });
            let spec = json!({ "targetRef": top, "to": items.collect::<Vec<_>>() });
            labelled(kind, &format!("p{n}"), &place, &spec)
        });
        made.collect()
    })
}

/// Destinations and a route, some of them with the same names.
fn destinations() -> impl Strategy<Value = Vec<Resource>> {
    let team = || select(vec!["a", "b"]);
    let all = (team(), team(), team(), any::<bool>()).prop_map(|(east, west, other, named)| {
        let web = |zone, team| {
            [("kuma.io/display-name", "web"), ("kuma.io/zone", zone), ("k8s.kuma.io/namespace", "shop"), ("team", team)]
        };
        let ports = if named { [(80, "http"), (90, "")] } else { [(80, ""), (90, "http")] };
        let far = [("kuma.io/display-name", "web"), ("team", other)];
        vec![
            resource(&mesh_service::KIND, "web-east", &web("east", east), &ports),
            resource(&mesh_service::KIND, "web-west", &web("west", west), &[(80, "http")]),
            resource(&mesh_service::KIND, "plain", &[("team", other)], &[(80, "http")]),
            resource(&mesh_external_service::KIND, "far", &[], &[(443, "")]),
            resource(&mesh_external_service::KIND, "far-web", &far, &[(443, "")]),
            resource(&HTTP_ROUTE, "route", &[("team", other)], &[]),
        ]
    });
    all.prop_flat_map(|all| subsequence(all, 1..=6))
}

fn with_mesh<'a>(destinations: impl IntoIterator<Item = &'a Resource>) -> Resources {
    let mut resources = Resources::default();
    resources.insert(resource(&mesh::KIND, "default", &[], &[]));
    destinations.into_iter().for_each(|each| resources.insert(each.clone()));
    resources
}

/// Each destination as a whole, each of its ports, and one that it does not have.
fn questions(destinations: &[Resource]) -> impl Iterator<Item = (&Resource, Kri)> {
    destinations.iter().flat_map(|each| {
        let sections = each.ports.iter().map(|port| port.section.as_str()).chain(["", "none"]);
        sections.map(move |section| (each, Kri { section: section.to_owned(), ..each.kri().unwrap() }))
    })
}

/// Name of a policy, and index of its item.
type Place = (String, usize);

/// Merged confs of a rule, and their origins; for each of the matches, its origin.
type Shown = (Vec<Value>, Vec<Place>, BTreeMap<String, Place>);

fn place(entry: &Entry) -> Place {
    (entry.policy.name.to_string(), entry.index)
}

fn shown(rule: &ResourceRule) -> Shown {
    let confs = rule.confs.iter().map(|conf| conf.json().clone()).collect();
    let by_matches = rule.by_matches.iter().map(|(hash, entry)| (hash.clone(), place(entry)));
    (confs, rule.origins.iter().map(place).collect(), by_matches.collect())
}

/// Naive evaluation of whether an item targets a port.
fn means(entry: &Entry, resource: &Resource, section: &str) -> bool {
    let (policy, target) = (&entry.policy, &entry.item().target);
    let kri = resource.kri().unwrap();
    let label = |labels: &Labels, key: &str| labels.get(key).cloned().unwrap_or_default();
    let kind = target.kind.as_ref().unwrap().to_string();
    if kind == "Mesh" {
        return true;
    }
    let name = target.name.clone().unwrap_or_default();
    let wanted = target.section_name.clone();
    let has_port =
        |number: &str| resource.ports.iter().any(|port| port.port.to_string() == number && port.section == section);
    if kind != resource.kind.name || policy.kind.legacy_names == LegacyNames::Nothing && name.contains('_') {
        return false;
    }
    if let (Some(("web", rest)), None) = (name.split_once('_'), &wanted) {
        let is_web = label(&resource.labels, "kuma.io/display-name") == "web" && kri.namespace == "shop";
        return is_web && (rest == "shop_svc" || rest.strip_prefix("shop_svc_").is_some_and(has_port));
    }
    let zone = label(&policy.labels, "kuma.io/zone");
    let namespace = target.namespace.clone().unwrap_or_else(|| label(&policy.labels, "k8s.kuma.io/namespace"));
    let meant = match &target.labels {
        Some(labels) => labels.iter().all(|(key, value)| resource.labels.get(key) == Some(value)),
        None => (&kri.name, &kri.zone, &kri.namespace) == (&name, &zone, &namespace),
    };
    let is_port = resource.ports.iter().any(|port| port.section == section);
    meant && wanted.is_none_or(|wanted| wanted == section && is_port)
}

fn naive(policies: &[Arc<Policy>], resource: &Resource, section: &str) -> Option<(Vec<Value>, Vec<Place>)> {
    let mut items = entries(policies);
    items.retain(|entry| !is_for_route(&entry.policy) && means(entry, resource, section));
    let shape = items.first()?.policy.kind.policy.unwrap().conf;
    let conf = |entry: &Entry| match entry.policy.kind.legacy_names {
        LegacyNames::Only(_) if entry.legacy_name().is_some() => {
            Conf::new(json!({ "a": { "b": entry.item().conf.json()["a"]["b"] } }))
        }
        _ => conf_of(shape, entry.item()),
    };
    let confs: Vec<Conf> = items.iter().map(conf).collect();
    let merged = merge(shape, &confs).iter().map(|conf| conf.json().clone()).collect();
    Some((merged, items.iter().map(place).collect()))
}

/// Whether [`targets_of`] contains a destination.
fn is_found(meant: &PolicyTargets, resource: &Resource) -> bool {
    let PolicyTargets::Some { named, old, labels } = meant else { return true };
    let kri = resource.kri().unwrap();
    let has = |labels: &Labels| labels.iter().all(|(key, value)| resource.labels.get(key) == Some(value));
    named.contains(&kri)
        || old.contains(&(kri.name, kri.namespace))
        || labels.iter().any(|(kind, labels)| *kind == resource.kind.name && has(labels))
}

static KINDS: [&Kind; 4] = [&TIMEOUT, &BALANCING, &HTTP_ROUTE, &TCP_ROUTE];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rule_of_a_destination_equals_the_rules_of_all(
        policies in policies(&KINDS),
        destinations in destinations(),
    ) {
        let asked = Asked::new(&policies, NameResolution::Objects);
        let among_others = rules(&policies, &with_mesh(&destinations));
        for (destination, kri) in questions(&destinations) {
            let about = asked.about(destination, &kri.section).as_ref().map(shown);
            prop_assert_eq!(&about, &find(&among_others, &kri).map(shown), "{}", kri);
            let alone = rules(&policies, &with_mesh([destination]));
            prop_assert_eq!(&about, &find(&alone, &kri).map(shown), "alone {}", kri);
            let told = about.map(|(confs, origins, _)| (confs, origins));
            prop_assert_eq!(told, naive(&policies, destination, &kri.section), "by hand {}", kri);
        }
    }

    #[test]
    fn rule_of_a_route_needs_an_item_for_it(
        policies in policies(&[&TIMEOUT]),
        destinations in destinations(),
    ) {
        let asked = Asked::new(&policies, NameResolution::Both);
        let rules = rules(&policies, &with_mesh(&destinations));
        for route in destinations.iter().filter(|each| each.kind.name == HTTP_ROUTE.name) {
            let found = rules.get(&route.kri().unwrap()).map(shown);
            prop_assert_eq!(asked.about_route(route).as_ref().map(shown), found);
        }
    }

    #[test]
    fn plain_route_items_are_ignored_beside_legacy_names(
        policies in policies(&[&HTTP_ROUTE, &TCP_ROUTE]),
        destinations in destinations(),
    ) {
        let is_plain = |target: &TargetRef| {
            let is_service = target.known_kind() == Some(TargetKind::MeshService);
            is_service && target.labels.is_none() && target.section_name.is_none()
        };
        let without = |policy: &Arc<Policy>| {
            let mut policy = Policy::clone(policy);
            policy.body.to.retain(|item| !is_plain(&item.target));
            Arc::new(policy)
        };
        let rest: Vec<Arc<Policy>> = policies.iter().map(without).collect();
        let (both, objects) = (Asked::new(&policies, NameResolution::Both), Asked::new(&rest, NameResolution::Objects));
        for (destination, kri) in questions(&destinations) {
            let confs = |asked: &Asked| asked.about(destination, &kri.section).map(|rule| shown(&rule).0);
            prop_assert_eq!(confs(&both), confs(&objects), "{}", kri);
        }
    }

    #[test]
    fn policies_do_not_affect_other_destinations(
        policies in policies(&KINDS),
        destinations in destinations(),
    ) {
        for policy in &policies {
            let asked = Asked::new(std::slice::from_ref(policy), NameResolution::Objects);
            for (destination, kri) in questions(&destinations) {
                if asked.about(destination, &kri.section).is_some() {
                    prop_assert!(is_found(&targets_of(policy), destination), "{} is touched by {:?}", kri, policy);
                }
            }
        }
    }
}
