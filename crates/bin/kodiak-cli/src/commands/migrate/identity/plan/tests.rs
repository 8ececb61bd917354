//! Steps and warnings for meshes in every state.

use serde_json::json;

use super::*;

const WEB: &str = "kri_mid_demo___web_";

fn facts(mode: &str, backend: &str, found: &Value) -> IdentityFacts {
    let backends = json!([{ "name": "ca", "type": "builtin", "mode": "PERMISSIVE" }]);
    let mesh = json!({ "meshServices": { "mode": mode }, "mtls": { "enabledBackend": backend, "backends": backends } });
    IdentityFacts {
        mesh: serde_json::from_value(mesh).unwrap(),
        permissions: Vec::new(),
        by_tags: Vec::new(),
        found: serde_json::from_value(found.clone()).unwrap(),
    }
}

/// A proxy at its target.
fn proxy(issuer: &str) -> Value {
    json!({
        "name": "web-1", "connected": true, "issuer": issuer, "wanted": issuer, "hasBundle": true,
        "expectsSAN": true, "presentsLeaf": true, "acknowledged": true,
    })
}

fn identity() -> Value {
    json!({ "name": "web", "kri": WEB, "ready": true })
}

#[test]
fn steps_come_in_the_order_of_the_migration() {
    let start = json!({ "proxies": [proxy("ca")] });
    assert_eq!(next(&facts("Everywhere", "ca", &start)), IdentityStep::SetExclusive);
    let tagged = IdentityFacts { permissions: vec!["all".to_owned()], ..facts("Exclusive", "ca", &start) };
    assert_eq!(next(&tagged), IdentityStep::ConvertPermissions);
    assert_eq!(next(&facts("Exclusive", "ca", &start)), IdentityStep::ApplyIdentity);
    let waiting = json!({ "identities": [identity()], "proxies": [proxy("ca")], "rollout": { "phase": "Trust" } });
    assert_eq!(next(&facts("Exclusive", "ca", &waiting)), IdentityStep::Wait);
    let done = json!({ "identities": [identity()], "proxies": [proxy(WEB)] });
    assert_eq!(next(&facts("Exclusive", "ca", &done)), IdentityStep::DisableBackend);
    assert_eq!(next(&facts("Exclusive", "", &done)), IdentityStep::Nothing);
}

#[test]
fn missing_labels_come_before_the_identity() {
    let mut web = proxy("ca");
    web["defaultPathProblem"] = json!("the Dataplane needs the label kuma.io/workload");
    let facts_of = |identities: Value| facts("Exclusive", "ca", &json!({ "identities": identities, "proxies": [web] }));
    let plan = shown("demo", &facts_of(json!([])));
    assert_eq!(plan.next.action, "FixDataplanes");
    assert!(text(&plan).contains("web-1: the Dataplane needs the label kuma.io/workload"), "{}", text(&plan));
    // An identity that selects others does not need labels of this one.
    let other = next(&facts_of(json!([identity()])));
    assert_eq!(other, IdentityStep::SelectProxies(vec!["web-1".to_owned()]));
}

#[test]
fn failed_identity_is_fixed_before_waiting() {
    let failed = json!({ "name": "web", "kri": WEB, "ready": false, "reason": "NoCA", "message": "secret not found" });
    let found = json!({ "identities": [failed], "proxies": [proxy("ca")] });
    let plan = shown("demo", &facts("Exclusive", "ca", &found));
    assert_eq!(
        (plan.next.action, plan.rollback.commands[0].as_str()),
        ("FixIdentity", "kodiak delete meshidentity web -m demo")
    );
    assert!(plan.next.why.contains("NoCA: secret not found"), "{}", plan.next.why);
}

#[test]
fn announced_identity_is_not_needed() {
    let announced = json!({ "name": "web", "kri": WEB, "announcedOnly": true, "reason": "PartiallyReady" });
    let plan =
        shown("demo", &facts("Exclusive", "ca", &json!({ "identities": [announced], "proxies": [proxy("ca")] })));
    assert_eq!(plan.next.action, "ApplyIdentity");
    assert!(plan.next.why.contains("not needed"), "{}", plan.next.why);
    assert!(plan.next.document.unwrap().contains("mesh: demo"));
}

#[test]
fn permissive_backend_is_removed_with_a_warning() {
    let found = json!({ "identities": [identity()], "proxies": [proxy(WEB)] });
    let plan = shown("demo", &facts("Exclusive", "ca", &found));
    assert!(plan.next.warnings[0].contains("servers refuse plain text"), "{:?}", plan.next.warnings);
    assert!(text(&plan).contains("WARNING: without a backend"), "{}", text(&plan));
    assert!(plan.rollback.commands[0].contains("mtls.enabledBackend: NAME"), "{:?}", plan.rollback);
}

#[test]
fn steps_that_change_what_is_trimmed_have_a_warning() {
    let warnings = |facts: &IdentityFacts| shown("demo", facts).next.warnings.join("\n");
    let strict = |facts: IdentityFacts| {
        let backends = json!([{ "name": "ca", "type": "builtin", "mode": "STRICT" }]);
        let mtls = json!({ "enabledBackend": "ca", "backends": backends });
        let mesh = json!({ "meshServices": { "mode": "Exclusive" }, "mtls": mtls });
        IdentityFacts { mesh: serde_json::from_value(mesh).unwrap(), ..facts }
    };
    let start = || facts("Exclusive", "ca", &json!({ "proxies": [proxy("ca")] }));
    assert!(warnings(&start()).contains("lose the destinations that they may not call"), "{}", warnings(&start()));
    assert_eq!(warnings(&strict(start())), "");
    let kept = IdentityFacts { by_tags: vec!["by-tag".to_owned()], ..strict(start()) };
    assert!(warnings(&kept).contains("`from` of by-tag does not match"), "{}", warnings(&kept));
    let done = json!({ "identities": [identity()], "proxies": [proxy(WEB)] });
    let last = strict(facts("Exclusive", "ca", &done));
    assert_eq!((next(&last), warnings(&last)), (IdentityStep::DisableBackend, String::new()));
    assert!(shown("demo", &last).next.why.contains("trimmed, stay as they are"));
}

#[test]
fn permission_without_items_in_from_needs_no_conversion() {
    assert!(has_from(&json!({ "spec": { "from": [{}] } })));
    assert!(!has_from(&json!({ "spec": { "from": [], "rules": [{}] } })));
    let from = |kind: &str| json!({ "spec": { "from": [{ "targetRef": { "kind": kind } }] } });
    assert!(matches_tags(&from("MeshSubset")) && !matches_tags(&from("Mesh")));
}
