//! Rules of generated MeshServices, and the property that reconciliation is idempotent.

mod labels_taken_over;

use std::collections::BTreeSet;

use kodiak_model::kinds::{
    dataplane::Dataplane,
    mesh_service::{Identity, State},
};
use kodiak_rules::Proxy;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn rules() -> Rules {
    Rules { zone: "east".to_owned(), ..Rules::default() }
}

fn at(minutes: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + minutes * 60).unwrap()
}

/// A Dataplane and its age.
#[derive(Debug, Clone)]
struct Given {
    created: Timestamp,
    proxy: Proxy,
}

/// Each inbound: a service and a port.
fn proxy(name: &str, age: i64, inbounds: &[(&str, u32)]) -> Given {
    let inbounds: Vec<Value> = inbounds
        .iter()
        .map(|(service, port)| json!({ "port": port, "tags": { "kuma.io/service": service } }))
        .collect();
    with_inbounds(name, age, &json!(inbounds))
}

fn with_inbounds(name: &str, age: i64, inbounds: &Value) -> Given {
    let dataplane: Dataplane = serde_json::from_value(json!({ "networking": { "inbound": inbounds } })).unwrap();
    let proxy = Proxy {
        mesh: "demo".into(),
        name: name.into(),
        labels: Arc::default(),
        dataplane: dataplane.into(),
        admission: None,
    };
    Given { created: at(-age), proxy }
}

fn labelled(given: Given, labels: &[(&str, &str)]) -> Given {
    let labels: Labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Given { proxy: Proxy { labels: labels.into(), ..given.proxy }, ..given }
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Create { name: String, labels: Labels, spec: MeshService },
    Update { name: String, labels: Labels, spec: MeshService },
    Delete { name: String },
}

/// Decisions for a whole mesh.
#[derive(Debug, Clone, Default, PartialEq)]
struct Plan {
    actions: Vec<Action>,
    /// The services, and the Dataplanes that have other ports.
    conflicts: Vec<(String, Vec<Arc<str>>)>,
    look_again: Option<Timestamp>,
}

/// Stored MeshServices by name.
type Stored = BTreeMap<String, (Labels, MeshService)>;

fn ask_by(rules: &Rules, mode: MeshServicesMode, minutes: i64, proxies: &[Given], stored: &Stored) -> Plan {
    let mut offers = Offers::default();
    for Given { created, proxy } in proxies {
        offers.set_proxy(rules, &proxy.name, Some((proxy, *created)));
    }
    let situation = Situation { rules, mesh: "demo", mode, now: at(minutes) };
    let names: BTreeSet<&str> =
        offers.services().map(|name| &**name).chain(stored.keys().map(String::as_str)).collect();
    let mut plan = Plan::default();
    for name in names {
        let existing = stored.get(name).map(|(labels, spec)| Existing { labels, spec });
        let Decision { verdict, conflict, look_again } = decide(&situation, name, existing, &offers);
        let name = name.to_owned();
        match (verdict, existing) {
            (Verdict::Stand { labels, spec }, None) => {
                plan.actions.push(Action::Create { name: name.clone(), labels, spec });
            }
            (Verdict::Stand { labels, spec }, Some(existing)) => {
                if labels != *existing.labels || spec != *existing.spec {
                    plan.actions.push(Action::Update { name: name.clone(), labels, spec });
                }
            }
            (Verdict::Delete, _) => plan.actions.push(Action::Delete { name: name.clone() }),
            (Verdict::Leave, _) => (),
        }
        if !conflict.is_empty() {
            plan.conflicts.push((name, conflict));
        }
        plan.look_again = plan.look_again.into_iter().chain(look_again).min();
    }
    plan
}

fn ask(mode: MeshServicesMode, minutes: i64, proxies: &[Given], stored: &Stored) -> Plan {
    ask_by(&rules(), mode, minutes, proxies, stored)
}

fn apply(stored: &mut Stored, actions: Vec<Action>) {
    for action in actions {
        match action {
            Action::Create { name, labels, spec } => {
                assert!(stored.insert(name, (labels, spec)).is_none(), "created twice");
            }
            Action::Update { name, labels, spec } => {
                stored.insert(name, (labels, spec)).expect("only what is there is updated");
            }
            Action::Delete { name } => {
                stored.remove(&name).expect("only what is there is deleted");
            }
        }
    }
}

/// Does what is to be done, minutes after the start.
fn after(stored: &mut Stored, minutes: i64, proxies: &[Given]) -> Plan {
    let plan = ask(MeshServicesMode::Everywhere, minutes, proxies, stored);
    apply(stored, plan.actions.clone());
    plan
}

fn ports(stored: &Stored, name: &str) -> Vec<u32> {
    stored[name].1.ports.iter().map(|port| port.port).collect()
}

fn by_hand(name: &str) -> Stored {
    let spec = MeshService { selector: selector(Source::ServiceTag, "elsewhere"), ..MeshService::default() };
    Stored::from([(name.to_owned(), (Labels::new(), spec))])
}

#[test]
fn service_has_the_ports_and_labels_of_its_proxies() {
    let inbounds = json!([
        { "port": 80, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } },
        { "port": 81, "name": "admin", "protocol": "grpc", "tags": { "kuma.io/service": "web", "kuma.io/protocol": "http" } },
        { "port": 80, "address": "10.0.0.9", "tags": { "kuma.io/service": "web" } },
        { "port": 82, "tags": { "kuma.io/service": "web", "kuma.io/protocol": "smoke-signals" } },
        { "port": 90, "tags": { "kuma.io/service": "other" } },
    ]);
    let mut stored = Stored::new();
    let plan = after(&mut stored, 0, &[with_inbounds("a", 1, &inbounds)]);
    assert_eq!((plan.actions.len(), plan.conflicts, plan.look_again), (2, vec![], None));
    let (labels, spec) = &stored["web"];
    assert_eq!(
        serde_json::to_value(spec).unwrap(),
        json!({
            "state": "Unavailable",
            "selector": { "dataplaneTags": { "kuma.io/service": "web" } },
            "ports": [
                { "name": "80", "port": 80, "targetPort": 80, "appProtocol": "http" },
                { "name": "admin", "port": 81, "targetPort": 81, "appProtocol": "grpc" },
                { "name": "82", "port": 82, "targetPort": 82, "appProtocol": "tcp" },
            ],
        })
    );
    assert_eq!(
        json!(labels),
        json!({
            "kuma.io/mesh": "demo", "kuma.io/display-name": "web", "kuma.io/managed-by": "meshservice-generator",
            "kuma.io/env": "universal", "kuma.io/zone": "east", "kuma.io/origin": "zone",
        })
    );
    assert_eq!(ports(&stored, "other"), [90]);
}

#[test]
fn invalid_name_generates_no_service() {
    let long = "a".repeat(64);
    for service in ["web_demo_svc_80", "1web", "Web", "-web", "web.demo", "", &long] {
        assert_eq!(after(&mut Stored::new(), 0, &[proxy("a", 1, &[(service, 80)])]), Plan::default(), "{service}");
    }
}

#[test]
fn oldest_proxy_decides_the_ports_then_the_name() {
    let mut stored = Stored::new();
    let plan = after(&mut stored, 0, &[proxy("a", 1, &[("web", 1)]), proxy("z", 2, &[("web", 2)])]);
    assert_eq!(ports(&stored, "web"), [2]);
    assert_eq!(plan.conflicts, [("web".to_owned(), vec!["a".into()])]);
    let mut stored = Stored::new();
    after(&mut stored, 0, &[proxy("b", 1, &[("web", 1)]), proxy("a", 1, &[("web", 2)])]);
    assert_eq!(ports(&stored, "web"), [2]);
}

#[test]
fn stored_ports_stay_while_one_proxy_agrees() {
    let mut stored = Stored::new();
    after(&mut stored, 0, &[proxy("a", 5, &[("web", 80), ("web", 81)])]);
    let older = proxy("z", 9, &[("web", 90)]);
    // Another order is the same.
    let plan = after(&mut stored, 1, &[older.clone(), proxy("b", 1, &[("web", 81), ("web", 80)])]);
    assert_eq!(plan.actions, []);
    assert_eq!(plan.conflicts, [("web".to_owned(), vec!["z".into()])]);
    let plan = after(&mut stored, 2, &[proxy("b", 1, &[("web", 91)]), older]);
    assert_eq!(ports(&stored, "web"), [90]);
    assert_eq!(plan.conflicts, [("web".to_owned(), vec!["b".into()])]);
}

#[test]
fn update_keeps_state_identities_and_foreign_labels() {
    let mut stored = Stored::new();
    after(&mut stored, 0, &[proxy("a", 1, &[("web", 80)])]);
    let (labels, spec) = stored.get_mut("web").unwrap();
    labels.insert("team".to_owned(), "blue".to_owned());
    spec.state = State::Available.into();
    spec.identities = Some(vec![Identity { value: "web".to_owned(), ..Identity::default() }]);
    let before = spec.clone();
    assert_eq!(after(&mut stored, 1, &[proxy("a", 1, &[("web", 80)])]), Plan::default());
    after(&mut stored, 2, &[proxy("a", 1, &[("web", 90)])]);
    let (labels, spec) = &stored["web"];
    assert_eq!((&spec.state, &spec.identities), (&before.state, &before.identities));
    assert_eq!((labels["team"].as_str(), ports(&stored, "web")), ("blue", vec![90]));
}

#[test]
fn changes_of_others_are_corrected() {
    let mut stored = Stored::new();
    let proxies = [proxy("a", 1, &[("web", 80)])];
    after(&mut stored, 0, &proxies);
    let wanted = stored.clone();
    let (labels, spec) = stored.get_mut("web").unwrap();
    labels.remove(labels::ENV);
    spec.selector = selector(Source::ServiceTag, "other");
    after(&mut stored, 1, &proxies);
    assert_eq!(stored, wanted);
}

#[test]
fn services_of_users_and_other_zones_are_not_changed() {
    let proxies = [proxy("a", 1, &[("web", 80)])];
    assert_eq!(after(&mut by_hand("web"), 0, &proxies), Plan::default());
    assert_eq!(after(&mut by_hand("web"), 0, &[]), Plan::default());
    let mut synced = by_hand("web");
    let (labels, _) = synced.get_mut("web").unwrap();
    labels.insert(labels::MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels.insert(labels::ORIGIN.to_owned(), "global".to_owned());
    for mode in [MeshServicesMode::Everywhere, MeshServicesMode::Disabled] {
        assert_eq!(ask(mode, 0, &[], &synced), Plan::default());
        assert_eq!(ask(mode, 0, &[], &by_hand("web")), Plan::default());
    }
}

#[test]
fn service_without_proxies_stays_for_the_grace_period() {
    let mut stored = Stored::new();
    let proxies = [proxy("a", 1, &[("web", 80)])];
    after(&mut stored, 0, &proxies);
    let served = stored.clone();
    assert_eq!(after(&mut stored, 10, &[]).look_again, Some(at(70)));
    let (labels, spec) = &stored["web"];
    assert_eq!((labels[labels::GRACE_STARTED].as_str(), spec), (at(10).to_string().as_str(), &served["web"].1));
    let waiting = after(&mut stored, 69, &[]);
    assert_eq!((waiting.actions, waiting.look_again), (vec![], Some(at(70))));
    let mut returned = stored.clone();
    after(&mut returned, 69, &proxies);
    assert_eq!(returned, served);
    assert_eq!(after(&mut stored, 70, &[]).actions, [Action::Delete { name: "web".to_owned() }]);
}

#[test]
fn unreadable_grace_period_starts_again_and_zero_ends_at_once() {
    let mut stored = Stored::new();
    after(&mut stored, 0, &[proxy("a", 1, &[("web", 80)])]);
    stored.get_mut("web").unwrap().0.insert(labels::GRACE_STARTED.to_owned(), "soon".to_owned());
    let none = Rules { grace: SignedDuration::ZERO, ..rules() };
    let at_once = ask_by(&none, MeshServicesMode::Everywhere, 5, &[], &stored);
    assert_eq!(at_once.actions, [Action::Delete { name: "web".to_owned() }]);
    after(&mut stored, 5, &[]);
    assert_eq!(stored["web"].0[labels::GRACE_STARTED], at(5).to_string());
}

#[test]
fn disabled_mode_deletes_generated_services_after_the_grace_period() {
    let proxies = [proxy("a", 1, &[("web", 80)])];
    let mut stored = by_hand("db");
    after(&mut stored, 0, &proxies);
    let served = stored.clone();
    let plan = ask(MeshServicesMode::Disabled, 10, &proxies, &stored);
    assert_eq!((plan.actions.len(), plan.look_again), (1, Some(at(12))));
    apply(&mut stored, plan.actions);
    assert_eq!(stored["web"].1, served["web"].1);
    assert_eq!(ask(MeshServicesMode::Disabled, 11, &proxies, &stored).actions, []);
    // Who changes his mind has all as it was.
    let mut returned = stored.clone();
    after(&mut returned, 11, &proxies);
    assert_eq!(returned, served);
    let plan = ask(MeshServicesMode::Disabled, 12, &proxies, &stored);
    assert_eq!(plan.actions, [Action::Delete { name: "web".to_owned() }]);
    apply(&mut stored, plan.actions);
    assert_eq!(stored, by_hand("db"));
    assert_eq!(ask(MeshServicesMode::Disabled, 12, &proxies, &stored), Plan::default());
}

#[test]
fn workloads_name_services_where_tags_do_not() {
    let by_workload = Rules { source: Source::Workload, ..rules() };
    let given = [
        labelled(proxy("a", 1, &[("web", 80), ("admin", 81)]), &[("kuma.io/workload", "shop")]),
        labelled(proxy("b", 1, &[("web", 80)]), &[("kuma.io/workload", "No Name")]),
        proxy("c", 1, &[("web", 80)]),
        labelled(proxy("d", 1, &[]), &[("kuma.io/workload", "idle")]),
    ];
    let mut stored = Stored::new();
    let plan = ask_by(&by_workload, MeshServicesMode::Everywhere, 0, &given, &stored);
    apply(&mut stored, plan.actions);
    assert_eq!(stored.keys().collect::<Vec<_>>(), ["shop"]);
    assert_eq!(ports(&stored, "shop"), [80, 81]);
    let selector = serde_json::to_value(&stored["shop"].1.selector).unwrap();
    assert_eq!(selector, json!({ "dataplaneLabels": { "matchLabels": { "kuma.io/workload": "shop" } } }));
}

#[test]
fn change_returns_services_whose_offers_changed() {
    let mut offers = Offers::default();
    let mut set = |given: Option<Given>| {
        let proxy = given.as_ref().map(|given| (&given.proxy, given.created));
        let changed = offers.set_proxy(&rules(), &"a".into(), proxy);
        changed.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(set(Some(proxy("a", 1, &[("web", 80), ("db", 81)]))), ["db", "web"]);
    assert!(set(Some(proxy("a", 1, &[("web", 80), ("db", 81)]))).is_empty());
    assert_eq!(set(Some(proxy("a", 1, &[("web", 80), ("db", 82)]))), ["db"]);
    assert_eq!(set(Some(proxy("a", 1, &[("web", 80)]))), ["db"]);
    assert_eq!(set(Some(proxy("a", 2, &[("web", 80)]))), ["web"], "its age decides who has the say");
    assert_eq!(set(None), ["web"]);
    assert_eq!(offers.services().count(), 0);
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn some_proxies() -> impl Strategy<Value = Vec<Given>> {
    let inbound = (prop::sample::select(vec!["web", "db", "no_name"]), 1..4_u32);
    let inbounds = prop::collection::vec(inbound, 0..4);
    prop::collection::vec((0..3_i64, inbounds), 0..NAMES.len())
        .prop_map(|all| all.iter().zip(NAMES).map(|((age, inbounds), name)| proxy(name, *age, inbounds)).collect())
}

fn some_mode() -> impl Strategy<Value = MeshServicesMode> {
    prop::sample::select(vec![
        MeshServicesMode::Disabled,
        MeshServicesMode::Everywhere,
        MeshServicesMode::ReachableBackends,
        MeshServicesMode::Exclusive,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_left_to_do_after_it_was_done(
        history in prop::collection::vec((some_mode(), 0..90_i64, some_proxies()), 1..5),
        hand_written in any::<bool>(),
    ) {
        let mut stored = if hand_written { by_hand("db") } else { Stored::new() };
        let mut minutes = 0;
        for (mode, passed, proxies) in history {
            minutes += passed;
            let first = ask(mode, minutes, &proxies, &stored);
            apply(&mut stored, first.actions);
            let second = ask(mode, minutes, &proxies, &stored);
            prop_assert_eq!(&second.actions, &vec![]);
            prop_assert_eq!(second.conflicts, first.conflicts);
            prop_assert_eq!(second.look_again, first.look_again);
            if hand_written {
                prop_assert_eq!(&stored["db"], &by_hand("db")["db"]);
            }
        }
    }
}
