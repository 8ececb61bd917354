//! Tests of who is selected.

use serde_json::{Value, json};

use super::*;

fn proxy(name: &str, labels: &Value, tags: &[Value]) -> Arc<Proxy> {
    let inbound: Vec<Value> = tags.iter().map(|tags| json!({ "port": 80, "tags": tags })).collect();
    let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": inbound } });
    Arc::new(Proxy {
        mesh: "default".into(),
        name: name.into(),
        labels: Arc::new(serde_json::from_value(labels.clone()).unwrap()),
        dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
        admission: None,
    })
}

fn selector(written: &Value) -> Selector {
    serde_json::from_value(written.clone()).unwrap()
}

fn members(membership: &Membership, service: &str) -> Vec<String> {
    membership.members(service).map(|proxy| proxy.name.to_string()).collect()
}

fn name(text: &str) -> Arc<str> {
    text.into()
}

#[test]
fn all_tags_must_be_on_one_inbound() {
    let both = proxy("both", &json!({}), &[json!({ "app": "web", "tier": "front" })]);
    let apart = proxy("apart", &json!({}), &[json!({ "app": "web" }), json!({ "tier": "front" })]);
    let wanted = selector(&json!({ "dataplaneTags": { "app": "web", "tier": "front" } }));
    assert!(selects(&wanted, &both));
    assert!(!selects(&wanted, &apart));
    assert!(!selects(&selector(&json!({ "dataplaneTags": {} })), &both));
    assert!(!selects(&Selector::default(), &both));
}

#[test]
fn dataplane_without_inbounds_is_not_selected() {
    let mut membership = Membership::default();
    membership.set_service(&name("all"), Some(&selector(&json!({ "dataplaneLabels": {} }))));
    membership.set_proxy(&name("client"), Some(&proxy("client", &json!({}), &[])));
    assert!(members(&membership, "all").is_empty());
    membership.set_proxy(&name("web"), Some(&proxy("web", &json!({}), &[json!({})])));
    assert_eq!(members(&membership, "all"), ["web"]);
}

#[test]
fn change_returns_previous_and_current_services() {
    let mut membership = Membership::default();
    for service in ["a", "b", "c"] {
        membership.set_service(&name(service), Some(&selector(&json!({ "dataplaneTags": { "app": service } }))));
    }
    let in_a = proxy("one", &json!({}), &[json!({ "app": "a" })]);
    let in_b = proxy("one", &json!({}), &[json!({ "app": "b" })]);
    assert_eq!(membership.set_proxy(&name("one"), Some(&in_a)), [name("a")].into());
    assert_eq!(membership.set_proxy(&name("one"), Some(&in_b)), [name("a"), name("b")].into());
    assert_eq!(membership.services_of("one").cloned().collect::<Vec<_>>(), [name("b")]);
    assert_eq!(membership.set_proxy(&name("one"), None), [name("b")].into());
    assert!(members(&membership, "b").is_empty());
}

/// Property: members equal the selected Dataplanes in any order of changes.
#[test]
fn members_equal_selected_dataplanes_after_any_history() {
    let selectors = [
        json!({ "dataplaneTags": { "app": "a" } }),
        json!({ "dataplaneTags": { "app": "a", "v": "1" } }),
        json!({ "dataplaneRef": { "name": "p1" } }),
        json!({ "dataplaneLabels": { "matchLabels": { "team": "x" } } }),
        json!({ "dataplaneLabels": {} }),
        json!({}),
    ];
    let shapes = [
        (json!({ "team": "x" }), vec![json!({ "app": "a", "v": "1" })]),
        (json!({}), vec![json!({ "app": "a" }), json!({ "v": "1" })]),
        (json!({ "team": "y" }), vec![json!({ "app": "b" })]),
        (json!({ "team": "x" }), vec![]),
    ];
    // A simple generator: the test needs variety, not randomness.
    let mut state = 7_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut membership = Membership::default();
    let (mut proxies, mut services) = (BTreeMap::new(), BTreeMap::new());
    for _ in 0..2_000 {
        let at = next(6);
        if next(2) == 0 {
            let key = name(&format!("p{at}"));
            let set = shapes.get(next(5)).map(|(labels, tags)| proxy(&key, labels, tags));
            membership.set_proxy(&key, set.as_ref());
            proxies.insert(key, set);
        } else {
            let key = name(&format!("s{at}"));
            let set = selectors.get(next(7)).map(selector);
            membership.set_service(&key, set.as_ref());
            services.insert(key, set);
        }
        for (service, selector) in &services {
            let selected = proxies.iter().filter(|(_, proxy)| {
                let served = proxy.as_ref().filter(|proxy| !proxy.dataplane.inbounds().is_empty());
                served.zip(selector.as_ref()).is_some_and(|(proxy, selector)| selects(selector, proxy))
            });
            let expected: Vec<String> = selected.map(|(name, _)| name.to_string()).collect();
            assert_eq!(members(&membership, service), expected, "{service}");
        }
    }
    for (key, _) in proxies {
        membership.set_proxy(&key, None);
    }
    assert!(membership.by_trait.is_empty() && membership.services_of.is_empty() && membership.members.is_empty());
}
