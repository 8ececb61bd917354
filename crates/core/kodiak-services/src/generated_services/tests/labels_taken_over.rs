//! Which labels of Dataplanes become labels of their MeshService.

use super::*;

/// The labels of `web` that were taken over, after a pass over these Dataplanes.
fn taken_over(stored: &mut Stored, allowed: &[&str], proxies: &[Given]) -> Vec<String> {
    let allowed = allowed.iter().map(|key| (*key).to_owned()).collect();
    let rules = Rules { propagation: Some(Propagation { allowed }), ..rules() };
    apply(stored, ask_by(&rules, MeshServicesMode::Everywhere, 0, proxies, stored).actions);
    assert_eq!(ask_by(&rules, MeshServicesMode::Everywhere, 0, proxies, stored).actions, []);
    let labels = stored["web"].0.iter().filter(|(key, _)| !is_reserved(key));
    labels.map(|(key, value)| format!("{key}={value}")).collect()
}

fn tagged(name: &str, age: i64, tags: &[&Value]) -> Given {
    let inbound = |(n, tags): (usize, &&Value)| {
        let mut tags = (*tags).clone();
        tags["kuma.io/service"] = json!("web");
        json!({ "port": 80 + n, "tags": tags })
    };
    with_inbounds(name, age, &json!(tags.iter().enumerate().map(inbound).collect::<Vec<_>>()))
}

#[test]
fn labels_are_copied_from_valid_tags_and_labels() {
    let tags = json!({ "team": "blue", "version": "1", "kuma.io/protocol": "http", "url": "http://x" });
    let other = json!({ "team": "blue", "version": "2" });
    let given =
        [labelled(tagged("a", 1, &[&tags, &other]), &[("team", "red"), ("tier", "front"), ("kuma.io/env", "x")])];
    // The inbounds differ in their version, the URL is no value of a label, and the Dataplane says its team itself.
    assert_eq!(taken_over(&mut Stored::new(), &[], &given), ["team=red", "tier=front"]);
    assert_eq!(taken_over(&mut Stored::new(), &["tier", "other"], &given), ["tier=front"]);
}

#[test]
fn most_frequent_value_wins_then_the_newest_then_the_alphabet() {
    let team = |name: &str, age, team: &str| tagged(name, age, &[&json!({ "team": team })]);
    let given = [team("a", 1, "blue"), team("b", 9, "red"), team("c", 8, "red")];
    assert_eq!(taken_over(&mut Stored::new(), &[], &given), ["team=red"]);
    assert_eq!(taken_over(&mut Stored::new(), &[], &given[..2]), ["team=blue"]);
    let given = [team("a", 1, "red"), team("b", 1, "blue")];
    assert_eq!(taken_over(&mut Stored::new(), &[], &given), ["team=blue"]);
}

#[test]
fn copied_labels_are_removed_and_foreign_ones_stay() {
    let mut stored = Stored::new();
    taken_over(&mut stored, &[], &[tagged("a", 1, &[&json!({ "team": "blue" })])]);
    stored.get_mut("web").unwrap().0.insert("cost".to_owned(), "7".to_owned());
    assert_eq!(
        taken_over(&mut stored, &[], &[tagged("a", 1, &[&json!({ "tier": "front" })])]),
        ["cost=7", "tier=front"]
    );
    let before = stored.clone();
    // Switched off, nothing is taken over and nothing is taken away.
    after(&mut stored, 0, &[tagged("a", 1, &[&json!({ "team": "blue" })])]);
    assert_eq!(stored, before);
}
