//! A mesh on its way from the mesh CA to a MeshIdentity.

use jiff::Timestamp;
use kodiak_identity::{AbsenceLimits, Moment};
use kodiak_rollout::{Phase, Rollout};
use kodiak_world::World;
use serde_json::{Value, json};

use super::{MeshIdentities, ProxyIdentity, ProxyProgress};
use crate::calls::tests::{MESH, put, put_with_status};

const WEB: &str = "kri_mid_default___web_";

/// With strict mTLS, in mode Exclusive.
fn mesh() -> World {
    let mut world = World::default();
    let mtls = json!({ "enabledBackend": "ca", "backends": [{ "name": "ca", "type": "builtin" }] });
    put(&mut world, "Mesh", MESH, &json!({}), &json!({ "mtls": mtls, "meshServices": { "mode": "Exclusive" } }));
    world
}

fn dataplane(world: &mut World, name: &str, labels: &Value) {
    let networking = json!({ "address": "10.0.0.1", "inbound": [{ "port": 80 }] });
    put(world, "Dataplane", name, labels, &json!({ "networking": networking }));
}

fn identity(world: &mut World, name: &str, labels: &Value, provider: &Value, conditions: &Value) {
    let spec = json!({
        "selector": { "dataplane": { "matchLabels": labels } },
        "spiffeID": { "trustDomain": "demo" },
        "provider": provider,
    });
    put_with_status(world, "MeshIdentity", name, &json!({}), &spec, Some(&json!({ "conditions": conditions })));
}

fn bundled() -> Value {
    json!({ "type": "Bundled" })
}

fn ready() -> Value {
    json!([{ "type": "Ready", "status": "True", "reason": "Ready", "message": "" }])
}

/// Connected proxy that acknowledged this step.
fn insight(world: &mut World, name: &str, issuer: &str, id: &str, step: &Rollout) {
    let connected = json!([{ "id": "1", "connectTime": "2026-01-01T00:00:00Z" }]);
    let mtls = json!({ "issuedBackend": issuer, "spiffeID": id, "acknowledged": step.token() });
    put(world, "DataplaneInsight", name, &json!({}), &json!({ "subscriptions": connected, "mTLS": mtls }));
}

fn store(world: &mut World, step: &Rollout) {
    put(world, "Config", "mtls-rollout", &json!({}), &serde_json::to_value(step).unwrap());
}

fn moment() -> Moment {
    Moment { now: Timestamp::UNIX_EPOCH, limits: AbsenceLimits::default() }
}

fn view(world: &World) -> MeshIdentities {
    MeshIdentities::of(world, MESH, "", &moment(), &kodiak_model::Cancellation::never()).unwrap().unwrap()
}

fn proxy(view: &MeshIdentities, name: &str) -> ProxyIdentity {
    view.proxies.iter().find(|proxy| &*proxy.name == name).unwrap().clone()
}

/// `bundle`, `san`, `leaf`, `ack`.
fn progress(view: &MeshIdentities, name: &str) -> String {
    let ProxyProgress { has_bundle, expects_san, presents_leaf, acknowledged } = proxy(view, name).progress;
    let all = [("bundle", has_bundle), ("san", expects_san), ("leaf", presents_leaf), ("ack", acknowledged)];
    all.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect::<Vec<_>>().join(" ")
}

#[test]
fn proxy_progresses_with_the_step_that_it_acknowledged() {
    let mut world = mesh();
    dataplane(&mut world, "web-1", &json!({ "kuma.io/workload": "web" }));
    let start = kodiak_identity::target(&world, MESH).unwrap();
    store(&mut world, &start);
    identity(&mut world, "web", &json!({}), &bundled(), &ready());
    insight(&mut world, "web-1", "ca", "spiffe://default/web", &start);
    let target = kodiak_identity::target(&world, MESH).unwrap();
    let (mut step, mut seen) = (start, vec![]);
    while let Some((phase, next)) = step.next(&target, false) {
        let before = view(&world);
        assert_eq!((before.rollout.next, before.rollout.waiting.len()), (Some(phase), 0));
        store(&mut world, &next);
        // Acknowledged the step before: nothing of the new one counts yet.
        let behind = view(&world);
        assert!(!progress(&behind, "web-1").contains("ack"), "{behind:?}");
        let is_issued = next.issuers == target.issuers;
        let (issuer, id) = if is_issued { (WEB, "spiffe://demo/workload/web") } else { ("ca", "spiffe://default/web") };
        insight(&mut world, "web-1", issuer, id, &next);
        seen.push((phase, progress(&view(&world), "web-1")));
        step = next;
    }
    let seen: Vec<_> = seen.iter().map(|(phase, progress)| (*phase, progress.as_str())).collect();
    assert_eq!(
        seen,
        [
            (Phase::Trust, "bundle ack"),
            (Phase::Expect, "bundle san ack"),
            (Phase::Issue, "bundle san leaf ack"),
            (Phase::Remove, "bundle san leaf ack"),
        ]
    );
    assert_eq!(view(&world).rollout.next, None);
}

#[test]
fn waiting_proxy_has_a_reason() {
    let mut world = mesh();
    dataplane(&mut world, "web-1", &json!({ "kuma.io/workload": "web" }));
    let start = kodiak_identity::target(&world, MESH).unwrap();
    store(&mut world, &start);
    insight(&mut world, "web-1", "ca", "", &Rollout::default());
    identity(&mut world, "web", &json!({}), &bundled(), &ready());
    let waiting: Vec<_> =
        view(&world).rollout.waiting.iter().map(|one| (one.proxy.clone(), one.reason.to_string())).collect();
    assert_eq!(waiting, [("web-1".into(), "has not acknowledged".to_owned())]);
}

#[test]
fn offline_proxy_has_acknowledged_nothing() {
    let mut world = mesh();
    dataplane(&mut world, "web-1", &json!({}));
    let view = view(&world);
    let web = proxy(&view, "web-1");
    assert_eq!((web.connected, web.progress), (false, ProxyProgress::default()));
    assert_eq!(web.wanted.as_deref(), Some("ca"));
}

#[test]
fn certificate_with_the_spiffe_id_before_an_edit_is_not_the_wanted_one() {
    let mut world = mesh();
    dataplane(&mut world, "web-1", &json!({ "kuma.io/workload": "web" }));
    identity(&mut world, "web", &json!({}), &bundled(), &ready());
    let step = kodiak_identity::target(&world, MESH).unwrap();
    for (id, is_wanted) in [("spiffe://demo/workload/web", true), ("spiffe://old/workload/web", false), ("", true)] {
        insight(&mut world, "web-1", WEB, id, &step);
        assert_eq!(proxy(&view(&world), "web-1").progress.presents_leaf, is_wanted, "{id}");
    }
}

#[test]
fn identities_count_the_dataplanes_that_they_issue_to() {
    let mut world = mesh();
    for (name, app) in [("web-1", "web"), ("web-2", "web"), ("db-1", "db")] {
        dataplane(&mut world, name, &json!({ "kuma.io/workload": app, "app": app }));
    }
    identity(&mut world, "all", &json!({}), &bundled(), &ready());
    identity(&mut world, "web", &json!({ "app": "web" }), &bundled(), &ready());
    let partly =
        json!([{ "type": "Ready", "status": "False", "reason": "PartiallyReady", "message": "only SpiffeIDs" }]);
    identity(&mut world, "next", &json!({ "app": "web" }), &Value::Null, &partly);
    let view = view(&world);
    let shown: Vec<_> = view
        .identities
        .iter()
        .map(|identity| (&*identity.name, identity.selected, identity.ready, identity.announced_only, identity.pending))
        .collect();
    assert_eq!(
        shown,
        [("all", 1, true, false, false), ("next", 0, false, true, false), ("web", 2, true, false, false)]
    );
    assert_eq!(view.identities[2].kri, WEB);
    assert_eq!(view.identities[2].trust_domain.as_deref(), Some("demo"));
    assert_eq!(proxy(&view, "web-1").wanted.as_deref(), Some(WEB));
}

#[test]
fn failed_identity_has_the_reason_of_the_specific_condition() {
    let mut world = mesh();
    let conditions = json!([
        { "type": "Provider", "status": "False", "reason": "ProviderNotFoundError", "message": "no such provider" },
        { "type": "Ready", "status": "False", "reason": "Failure", "message": "One of initialization steps failed" },
    ]);
    identity(&mut world, "web", &json!({}), &bundled(), &conditions);
    let view = view(&world);
    let web = &view.identities[0];
    assert_eq!((web.ready, web.pending), (false, false));
    assert_eq!(web.failure.as_ref().unwrap().reason, "ProviderNotFoundError");
}

#[test]
fn identity_is_pending_until_the_control_plane_recorded_its_edit() {
    let mut world = mesh();
    identity(&mut world, "web", &json!({}), &bundled(), &json!([]));
    put(&mut world, "Config", "mesh-identities", &json!({}), &json!({}));
    assert!(view(&world).identities[0].pending);
    let recorded = kodiak_identity::expected(&world, MESH);
    put(&mut world, "Config", "mesh-identities", &json!({}), &serde_json::to_value(&recorded).unwrap());
    assert!(!view(&world).identities[0].pending);
    identity(&mut world, "web", &json!({ "app": "web" }), &bundled(), &ready());
    assert!(view(&world).identities[0].pending);
}

#[test]
fn missing_labels_are_named_before_and_after_an_identity_selects_the_proxy() {
    let mut world = mesh();
    dataplane(&mut world, "web-1", &json!({}));
    let web = proxy(&view(&world), "web-1");
    assert_eq!(web.problem, None);
    assert!(web.default_path_problem.unwrap().contains("kuma.io/workload"));
    identity(&mut world, "web", &json!({}), &bundled(), &ready());
    let web = proxy(&view(&world), "web-1");
    assert!(web.problem.unwrap().contains("kuma.io/workload"));
    assert_eq!((web.default_path_problem, web.wanted.as_deref()), (None, Some("ca")));
}
