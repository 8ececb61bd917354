//! Who is called what, and who is told of a change.

mod property;

use serde_json::{Value, json};

use super::*;

fn labels(written: &Value) -> Arc<Labels> {
    Arc::new(serde_json::from_value(written.clone()).unwrap())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn name(text: &str) -> Arc<str> {
    text.into()
}

fn key(text: &str) -> ServiceKey {
    ServiceKey { kind: BackendKind::MeshService, mesh: name("default"), name: name(text) }
}

fn keys(names: &[&str]) -> BTreeSet<ServiceKey> {
    names.iter().map(|name| key(name)).collect()
}

fn service(created: i64, written: &Value) -> TemplateFields {
    TemplateFields { labels: labels(written), created: at(created) }
}

fn generator(created: i64, origin: &str, spec: Value) -> Generator {
    let labels = labels(&json!({ "kuma.io/origin": origin }));
    Generator { labels, created: at(created), spec: serde_json::from_value(spec).unwrap() }
}

/// A generator for MeshServices of all labels.
fn for_all(created: i64, origin: &str, template: &str) -> Generator {
    generator(created, origin, json!({ "template": template, "selector": { "meshService": {} } }))
}

/// `hostname by generator` for each address, and `generator reason message` for what went wrong.
fn answer(hostnames: &Hostnames, key: &ServiceKey) -> Vec<String> {
    let (addresses, statuses) = hostnames.of(key);
    let addresses = addresses.into_iter().map(|address| {
        assert_eq!(address.origin, Some(AddressOrigin::HostnameGenerator.into()));
        format!("{} by {}", address.hostname, address.hostname_generator_ref.core_name)
    });
    let faults = statuses.into_iter().filter_map(|status| {
        let [Condition { condition_type, status: is, reason, message }] = &status.conditions[..] else {
            panic!("a generator has one condition: {status:?}");
        };
        assert_eq!(condition_type, "Generated");
        assert_eq!((is == "True", is == "False"), (reason == "Generated", reason != "Generated"), "{is} {reason}");
        (is == "False").then(|| format!("{} {reason} {message}", status.hostname_generator_ref.core_name))
    });
    addresses.chain(faults).collect()
}

fn belongs_to(owner: &str) -> String {
    format!("g Collision x.mesh belongs to MeshService {owner}, which a generator named first")
}

#[test]
fn generator_names_selected_services() {
    let mut hostnames = Hostnames::new("east");
    let spec = json!({
        "template": r#"{{ .DisplayName }}.{{ .Namespace }}.{{ .Zone }}.{{ .Mesh }}.{{ .Name }}.{{ label "team" }}"#,
        "selector": { "meshService": { "matchLabels": { "team": "a" } } },
    });
    hostnames.set_generator(&name("g"), Some(generator(0, "zone", spec)));
    let written = json!({
        "team": "a", "kuma.io/display-name": "web", "k8s.kuma.io/namespace": "shop", "kuma.io/zone": "west",
    });
    hostnames.set_service(&key("web-x4"), Some(service(0, &written)));
    hostnames.set_service(&key("other"), Some(service(0, &json!({ "team": "b" }))));
    let external = ServiceKey { kind: BackendKind::MeshExternalService, ..key("web-x4") };
    hostnames.set_service(&external, Some(service(0, &written)));
    assert_eq!(answer(&hostnames, &key("web-x4")), ["web.shop.west.default.web-x4.a by g"]);
    for unnamed in [key("other"), external, key("nobody")] {
        assert_eq!(hostnames.of(&unnamed), (vec![], vec![]), "{unnamed:?}");
    }
}

#[test]
fn service_without_zone_label_is_of_this_zone() {
    let mut hostnames = Hostnames::new("east");
    hostnames.set_generator(&name("g"), Some(for_all(0, "zone", "{{ .Name }}.{{ .Zone }}")));
    hostnames.set_service(&key("web"), Some(service(0, &json!({}))));
    assert_eq!(answer(&hostnames, &key("web")), ["web.east by g"]);
}

#[test]
fn hostname_status_is_ordered_by_generator_name() {
    let mut hostnames = Hostnames::new("east");
    hostnames.set_service(&key("web"), Some(service(0, &json!({}))));
    hostnames.set_generator(&name("c"), Some(for_all(1, "zone", "one.mesh")));
    hostnames.set_generator(&name("b"), Some(for_all(2, "zone", r#"{{ label "team" }}"#)));
    hostnames.set_generator(&name("a"), Some(for_all(3, "zone", "one.mesh")));
    let (addresses, statuses) = hostnames.of(&key("web"));
    let by: Vec<_> = addresses.iter().map(|address| &address.hostname_generator_ref.core_name[..]).collect();
    assert_eq!(by, ["a", "c"], "one service may have a name twice");
    let of: Vec<_> = statuses.iter().map(|status| &status.hostname_generator_ref.core_name[..]).collect();
    assert_eq!(of, ["a", "b", "c"]);
}

#[test]
fn invalid_hostname_is_an_error_of_the_template() {
    let long = "a".repeat(254);
    for (template, expected) in [
        ("{{ .Name", "couldn't parse template: template: :1: unclosed action"),
        (r#"{{ label "team" }}"#, "label team not found"),
        ("{{ .Missing }}", "couldn't render template: "),
        ("{{ .Name }}.Mesh", r#"template renders to "web.Mesh" which is not a valid DNS name: "#),
        ("{{ .Namespace }}.mesh", r#"template renders to ".mesh" which is not a valid DNS name: "#),
        ("", r#"template renders to "" which is not a valid DNS name: "#),
        (&long, "must be no more than 253 characters"),
    ] {
        let mut hostnames = Hostnames::new("east");
        hostnames.set_generator(&name("g"), Some(for_all(0, "zone", template)));
        hostnames.set_service(&key("web"), Some(service(0, &json!({}))));
        let answer = answer(&hostnames, &key("web"));
        assert_eq!(answer.len(), 1);
        assert!(answer[0].starts_with("g TemplateError ") && answer[0].contains(expected), "{template}: {answer:?}");
    }
}

#[test]
fn oldest_service_owns_a_hostname_and_others_name_the_owner() {
    let mut hostnames = Hostnames::new("east");
    hostnames.set_generator(&name("g"), Some(for_all(0, "zone", "x.mesh")));
    hostnames.set_service(&key("a"), Some(service(2, &json!({}))));
    hostnames.set_service(&key("b"), Some(service(1, &json!({}))));
    hostnames.set_service(&key("c"), Some(service(1, &json!({}))));
    assert_eq!(answer(&hostnames, &key("b")), ["x.mesh by g"]);
    assert_eq!(answer(&hostnames, &key("a")), [belongs_to("b")]);
    assert_eq!(answer(&hostnames, &key("c")), [belongs_to("b")]);
    assert_eq!(hostnames.set_service(&key("b"), None), keys(&["a", "b", "c"]));
    assert_eq!(answer(&hostnames, &key("c")), ["x.mesh by g"]);
    assert_eq!(answer(&hostnames, &key("a")), [belongs_to("c")]);
}

#[test]
fn hostnames_of_other_meshes_and_kinds_do_not_conflict() {
    let mut hostnames = Hostnames::new("east");
    let spec = json!({ "template": "x.mesh", "selector": { "meshService": {}, "meshExternalService": {} } });
    hostnames.set_generator(&name("g"), Some(generator(0, "zone", spec)));
    let external = ServiceKey { kind: BackendKind::MeshExternalService, ..key("b") };
    let elsewhere = ServiceKey { mesh: name("other"), ..key("c") };
    for key in [key("a"), external, elsewhere] {
        hostnames.set_service(&key, Some(service(0, &json!({}))));
        assert_eq!(answer(&hostnames, &key), ["x.mesh by g"], "{key:?}");
    }
}

#[test]
fn generators_of_the_zone_win_then_the_oldest_then_by_name() {
    let two = [("older", 1), ("younger", 2)];
    for (first, second, expected) in [
        (("g", 2, "zone"), ("f", 1, "global"), "g"),
        (("g", 2, "zone"), ("f", 1, ""), "g"),
        (("g", 1, "zone"), ("f", 2, "zone"), "g"),
        (("g", 1, "global"), ("f", 2, ""), "g"),
        (("g", 1, "zone"), ("f", 1, "zone"), "f"),
    ] {
        let mut hostnames = Hostnames::new("east");
        // Each names one service only: the winner is whoever the first generator names.
        for ((by, created, origin), (service, _)) in [(first, two[1]), (second, two[0])] {
            let spec = json!({
                "template": "x.mesh", "selector": { "meshService": { "matchLabels": { "app": service } } },
            });
            hostnames.set_generator(&name(by), Some(generator(created, origin, spec)));
        }
        for (text, created) in two {
            hostnames.set_service(&key(text), Some(service(created, &json!({ "app": text }))));
        }
        let (winner, loser) = if expected == first.0 { (two[1].0, two[0].0) } else { (two[0].0, two[1].0) };
        assert_eq!(answer(&hostnames, &key(winner)), [format!("x.mesh by {expected}")], "{first:?} {second:?}");
        assert!(answer(&hostnames, &key(loser))[0].contains(&format!("MeshService {winner}")), "{first:?} {second:?}");
    }
}

#[test]
fn change_of_a_generator_affects_previous_and_current_services() {
    let mut hostnames = Hostnames::new("east");
    for text in ["a", "b", "c"] {
        hostnames.set_service(&key(text), Some(service(0, &json!({ "app": text }))));
    }
    let only = |app: &str| {
        let spec = json!({ "template": "x.mesh", "selector": { "meshService": { "matchLabels": { "app": app } } } });
        Some(generator(0, "zone", spec))
    };
    assert_eq!(hostnames.set_generator(&name("g"), only("a")), keys(&["a"]));
    assert_eq!(hostnames.set_generator(&name("g"), only("b")), keys(&["a", "b"]));
    assert_eq!(hostnames.set_generator(&name("g"), only("b")), keys(&[]));
    assert_eq!(hostnames.set_generator(&name("g"), None), keys(&["b"]));
    assert_eq!(hostnames.set_generator(&name("g"), None), keys(&[]));
}

#[test]
fn change_of_a_service_affects_only_it_and_competing_services() {
    let mut hostnames = Hostnames::new("east");
    for (at, template) in ["{{ .Name }}.mesh", "{{ .DisplayName }}.local", "{{ .Name }}.{{ .Zone }}"].iter().enumerate()
    {
        hostnames.set_generator(&name(&format!("g{at}")), Some(for_all(0, "zone", template)));
    }
    for at in 0..1_000 {
        let text = format!("s{at}");
        assert_eq!(hostnames.set_service(&key(&text), Some(service(at, &json!({})))), keys(&[&text]));
    }
    let shown = |text: &str| json!({ "kuma.io/display-name": text });
    assert_eq!(hostnames.set_service(&key("s7"), Some(service(7, &shown("new")))), keys(&["s7"]));
    assert_eq!(hostnames.set_service(&key("s7"), Some(service(7, &shown("s8")))), keys(&["s7", "s8"]));
    assert_eq!(hostnames.set_service(&key("s9"), Some(service(9, &shown("s8")))), keys(&["s9"]));
    assert_eq!(hostnames.set_service(&key("s7"), None), keys(&["s7", "s8", "s9"]));
}
