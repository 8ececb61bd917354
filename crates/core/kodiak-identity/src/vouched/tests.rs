//! Every token, with every selector, under every issuer.

use std::sync::Arc;

use kodiak_model::kinds::dataplane::WrittenKeys;
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers};
use serde_json::{Value, json};

use super::*;

const SERVICE: &str = "kuma.io/service";
const WORKLOAD: &str = "kuma.io/workload";

fn keys(keys: &[&str]) -> BTreeSet<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

fn token(tags: &[&str], labels: &[&str], name: bool) -> Admission {
    Admission { tags: keys(tags), labels: keys(labels), name, ..Admission::default() }
}

/// `web-1`, whose label `app: payments` is what an attacker would claim.
fn proxy(admission: Option<Admission>) -> Proxy {
    let tags = json!({ SERVICE: "web", "version": "v1" });
    let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": tags }] } });
    let labels =
        [("app", "payments"), (WORKLOAD, "web"), ("kuma.io/mesh", "default"), ("kuma.io/proxy-type", "sidecar")];
    Proxy {
        mesh: "default".into(),
        name: "web-1".into(),
        labels: Arc::new(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
        dataplane: Arc::new(serde_json::from_value(dataplane).unwrap()),
        admission: admission.map(Arc::new),
    }
}

fn selector(selector: &Value) -> Selector {
    serde_json::from_value(selector.clone()).unwrap()
}

fn mesh_identity(is_issuing: bool) -> Arc<AppliedIdentity> {
    Arc::new(AppliedIdentity {
        name: "identity".into(),
        trust_domain: "td".into(),
        path: Some("/workload/{{ .Workload }}".into()),
        provider: is_issuing.then(|| AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    })
}

/// No mTLS, the mesh CA, a MeshIdentity, both while the mesh moves from one to the other, and the mesh CA beside a MeshIdentity
/// without a provider.
fn rollouts() -> [Rollout; 5] {
    let backend = Issuers { signer: Some("ca".into()), ..Issuers::default() };
    let identity = Issuers { identities: vec![mesh_identity(true)], ..Issuers::default() };
    let announced = Issuers { identities: vec![mesh_identity(false)], ..backend.clone() };
    let both = Some(Issuers { identities: identity.identities.clone(), ..backend.clone() });
    let of = |issuers: Issuers, other_issuers| Rollout { issuers, other_issuers, call: true, ..Rollout::default() };
    [Rollout::default(), of(backend.clone(), None), of(identity, None), of(backend, both), of(announced, None)]
}

/// `E` for an endpoint, `T` if callers accept the certificate of the mesh CA, `S` that of the MeshIdentity; `-` for none, and
/// `!` if the status of the MeshService names the member.
fn shown(accepted: &Acceptance) -> String {
    let Acceptance { is_endpoint, service_tags, spiffe_ids, unvouched } = accepted;
    let mark = |is_so: bool, mark: &'static str| if is_so { mark } else { "" };
    let text = [
        mark(*is_endpoint, "E"),
        mark(!service_tags.is_empty(), "T"),
        mark(!spiffe_ids.is_empty(), "S"),
        mark(!unvouched.is_empty(), "!"),
    ]
    .concat();
    if *is_endpoint { text } else { format!("-{text}") }
}

fn tokens() -> Vec<(&'static str, Option<Admission>)> {
    vec![
        ("user", None),
        ("none, mesh", Some(token(&[], &[], false))),
        ("name", Some(token(&[], &[], true))),
        ("tag version", Some(token(&["version"], &[], false))),
        ("tag service", Some(token(&[SERVICE], &[], false))),
        ("workload", Some(token(&[], &[WORKLOAD], false))),
        ("label app", Some(token(&[], &["app"], false))),
        ("name+workload", Some(token(&[], &[WORKLOAD], true))),
        ("service+workload", Some(token(&[SERVICE], &[WORKLOAD], false))),
        ("service+app", Some(token(&[SERVICE], &["app"], false))),
        ("workload+app", Some(token(&[], &[WORKLOAD, "app"], false))),
        ("unreadable", Some(Admission::unknown())),
    ]
}

fn selectors() -> Vec<(&'static str, Selector)> {
    let labels = |labels: Value| selector(&json!({ "dataplaneLabels": { "matchLabels": labels } }));
    let tags = |tags: Value| selector(&json!({ "dataplaneTags": tags }));
    vec![
        ("tag service", tags(json!({ SERVICE: "web" }))),
        ("tag service+version", tags(json!({ SERVICE: "web", "version": "v1" }))),
        ("tag version", tags(json!({ "version": "v1", "kuma.io/zone": "east" }))),
        ("label app", labels(json!({ "app": "payments" }))),
        ("label workload", labels(json!({ WORKLOAD: "web" }))),
        ("ref", selector(&json!({ "dataplaneRef": { "name": "web-1" } }))),
        ("all", labels(json!({}))),
    ]
}

/// Columns: no mTLS, mesh CA, MeshIdentity, both, MeshIdentity without a provider.
const EXPECTED: &str = "
user             | tag service         | ET ET ETS ETS ETS
user             | tag service+version | ET ET ETS ETS ETS
user             | tag version         | ET ET ETS ETS ETS
user             | label app           | ET ET ETS ETS ETS
user             | label workload      | ET ET ETS ETS ETS
user             | ref                 | ET ET ETS ETS ETS
user             | all                 | ET ET ETS ETS ETS
none, mesh       | tag service         | ET ET ET ET ET
none, mesh       | tag service+version | ET ET ET ET ET
none, mesh       | tag version         | ET ET ET ET ET
none, mesh       | label app           | ET ET ET ET ET
none, mesh       | label workload      | ET ET ET ET ET
none, mesh       | ref                 | ET ET ET ET ET
none, mesh       | all                 | ET ET ET ET ET
name             | tag service         | ET ET ET ET ET
name             | tag service+version | ET ET ET ET ET
name             | tag version         | ET ET ET ET ET
name             | label app           | ET ET ET ET ET
name             | label workload      | ET ET ET ET ET
name             | ref                 | ET ET ET ET ET
name             | all                 | ET ET ET ET ET
tag version      | tag service         | ET ET ET ET ET
tag version      | tag service+version | ET ET ET ET ET
tag version      | tag version         | ET ET ET ET ET
tag version      | label app           | ET ET ET ET ET
tag version      | label workload      | ET ET ET ET ET
tag version      | ref                 | ET ET ET ET ET
tag version      | all                 | ET ET ET ET ET
tag service      | tag service         | ET ET ET ET ET
tag service      | tag service+version | ET ET ET ET ET
tag service      | tag version         | -! -! -! -! -!
tag service      | label app           | -! -! -! -! -!
tag service      | label workload      | ET ET ET ET ET
tag service      | ref                 | -! -! -! -! -!
tag service      | all                 | ET ET ET ET ET
workload         | tag service         | ET ET ETS ETS ETS
workload         | tag service+version | ET ET -! -! ET!
workload         | tag version         | -! -! -! -! -!
workload         | label app           | -! -! -! -! -!
workload         | label workload      | ET ET ETS ETS ETS
workload         | ref                 | -! -! -! -! -!
workload         | all                 | ET ET ETS ETS ETS
label app        | tag service         | -! -! -! -! -!
label app        | tag service+version | -! -! -! -! -!
label app        | tag version         | -! -! -! -! -!
label app        | label app           | ET ET ET ET ET
label app        | label workload      | -! -! -! -! -!
label app        | ref                 | -! -! -! -! -!
label app        | all                 | ET ET ET ET ET
name+workload    | tag service         | ET ET ETS ETS ETS
name+workload    | tag service+version | ET ET -! -! ET!
name+workload    | tag version         | -! -! -! -! -!
name+workload    | label app           | -! -! -! -! -!
name+workload    | label workload      | ET ET ETS ETS ETS
name+workload    | ref                 | ET ET ETS ETS ETS
name+workload    | all                 | ET ET ETS ETS ETS
service+workload | tag service         | ET ET ETS ETS ETS
service+workload | tag service+version | ET ET -! -! ET!
service+workload | tag version         | -! -! -! -! -!
service+workload | label app           | -! -! -! -! -!
service+workload | label workload      | ET ET ETS ETS ETS
service+workload | ref                 | -! -! -! -! -!
service+workload | all                 | ET ET ETS ETS ETS
service+app      | tag service         | ET ET ET ET ET
service+app      | tag service+version | ET ET ET ET ET
service+app      | tag version         | -! -! -! -! -!
service+app      | label app           | ET ET ET ET ET
service+app      | label workload      | ET ET ET ET ET
service+app      | ref                 | -! -! -! -! -!
service+app      | all                 | ET ET ET ET ET
workload+app     | tag service         | ET ET ETS ETS ETS
workload+app     | tag service+version | ET ET -! -! ET!
workload+app     | tag version         | -! -! -! -! -!
workload+app     | label app           | ET ET ETS ETS ETS
workload+app     | label workload      | ET ET ETS ETS ETS
workload+app     | ref                 | -! -! -! -! -!
workload+app     | all                 | ET ET ETS ETS ETS
unreadable       | tag service         | -! -! -! -! -!
unreadable       | tag service+version | -! -! -! -! -!
unreadable       | tag version         | -! -! -! -! -!
unreadable       | label app           | -! -! -! -! -!
unreadable       | label workload      | -! -! -! -! -!
unreadable       | ref                 | -! -! -! -! -!
unreadable       | all                 | ET ET ET ET ET
";

#[test]
fn members_are_accepted_by_what_is_vouched_for() {
    let (tokens, selectors) = (tokens(), selectors());
    let mut rows = EXPECTED.trim().lines();
    for (token, admission) in &tokens {
        for (selected, selector) in &selectors {
            let member = proxy(admission.clone());
            let found = rollouts().map(|rollout| shown(&acceptance(&rollout, selector, &member)));
            let row = format!("{token:<16} | {selected:<19} | {}", found.join(" "));
            assert_eq!(Some(row.as_str()), rows.next());
        }
    }
    assert_eq!(rows.next(), None);
}

/// The invariant, without the table.
#[test]
fn spiffe_id_is_accepted_only_if_every_key_is_vouched_for() {
    let mut seen = [0, 0];
    for (_, admission) in tokens() {
        for (_, selector) in selectors() {
            for rollout in rollouts() {
                let member = proxy(admission.clone());
                let accepted = acceptance(&rollout, &selector, &member);
                let Some(admission) = &admission else { continue };
                let is_bound = |claim: &Claim| match claim {
                    Claim::Name(_) => admission.name,
                    Claim::Tag(key, _) => {
                        admission.tags.contains(key)
                            || key == "kuma.io/zone"
                            || key == SERVICE && admission.labels.contains(WORKLOAD)
                    }
                    Claim::Label(key, _) => {
                        admission.labels.contains(key) || key == WORKLOAD && admission.tags.contains(SERVICE)
                    }
                };
                if claims_of(&selector).all(|claim| is_bound(&claim)) {
                    seen[0] += usize::from(!accepted.spiffe_ids.is_empty());
                } else if admission.scope() != TokenScope::AnyProxy {
                    assert!(accepted.spiffe_ids.is_empty(), "{admission:?} {selector:?}");
                    let presents = |issuers| matches!(issuer_of(issuers, &member), Some(Issuer::Identity { .. }));
                    let is_presenting = rollout.all_issuers().any(presents);
                    assert!(!(accepted.is_endpoint && is_presenting), "{admission:?} {selector:?}");
                    seen[1] += usize::from(is_presenting);
                }
            }
        }
    }
    assert!(seen.iter().all(|count| *count > 5), "{seen:?}");
}

#[test]
fn service_of_another_workload_is_a_claim() {
    let payments = selector(&json!({ "dataplaneTags": { SERVICE: "payments" } }));
    let mut member = proxy(Some(token(&[], &[WORKLOAD], false)));
    let tags = json!({ SERVICE: "payments" });
    let dataplane = json!({ "networking": { "address": "10.0.0.1", "inbound": [{ "port": 80, "tags": tags }] } });
    member.dataplane = Arc::new(serde_json::from_value(dataplane).unwrap());
    for rollout in rollouts() {
        let accepted = acceptance(&rollout, &payments, &member);
        assert!(!accepted.is_endpoint);
        assert_eq!(accepted.unvouched, [Claim::Tag(SERVICE.to_owned(), "payments".to_owned())]);
        assert_eq!(accepted.unvouched[0].to_string(), "--tag kuma.io/service=payments");
    }
}

#[test]
fn labels_that_a_user_wrote_are_vouched_for() {
    let payments = selector(&json!({ "dataplaneLabels": { "matchLabels": { "app": "payments" } } }));
    let bound = token(&[SERVICE], &[WORKLOAD], false);
    let written = WrittenKeys { labels: keys(&["app"]), ..WrittenKeys::default() };
    for (admission, expected) in [(bound.clone(), "-!"), (Admission { written, ..bound }, "ETS")] {
        assert_eq!(shown(&acceptance(&rollouts()[2], &payments, &proxy(Some(admission)))), expected);
    }
}

/// A name token gets no SPIFFE ID, until a user writes the label of its path.
#[test]
fn free_service_is_enough_for_the_mesh_ca_only() {
    let web = selector(&json!({ "dataplaneTags": { SERVICE: "web", "version": "v1" } }));
    let mut admission = token(&[], &[], true);
    admission.written.labels.insert(WORKLOAD.to_owned());
    let member = proxy(Some(admission));
    let found = rollouts().map(|rollout| shown(&acceptance(&rollout, &web, &member)));
    assert_eq!(found, ["ET", "ET", "-!", "-!", "ET!"]);
}

#[test]
fn control_plane_labels_need_no_token() {
    let selected = |labels: Value| selector(&json!({ "dataplaneLabels": { "matchLabels": labels } }));
    let member = proxy(Some(token(&[SERVICE], &[], false)));
    for (labels, expected) in [
        (json!({ "kuma.io/mesh": "default", "kuma.io/proxy-type": "sidecar" }), true),
        (json!({ "kuma.io/env": "kubernetes" }), false),
        (json!({ "kuma.io/zone": "east" }), false),
    ] {
        assert_eq!(acceptance(&rollouts()[1], &selected(labels), &member).is_endpoint, expected);
    }
}
