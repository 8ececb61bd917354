//! A MeshService does not accept an identity because a proxy says so.

use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers};

use super::*;
use crate::generated_services::{Propagation, Rules};

/// Of a token that binds `kuma.io/service` and these labels.
fn bound(labels: &[&str]) -> Admission {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    Admission { tags: ["kuma.io/service".to_owned()].into(), labels, ..Admission::default() }
}

/// A service that selects by label, and one proxy of it that a user wrote.
fn payments() -> Kept {
    let mut kept = Kept::new();
    let ports = json!([{ "port": 80, "targetPort": 80 }]);
    let selector = json!({ "dataplaneLabels": { "matchLabels": { "app": "payments" } } });
    kept.put_service("payments", &json!({}), &json!({ "selector": selector, "ports": ports }));
    kept.dataplane_with("payments-1", &serves(&[("payments", 80)]), &json!({ "app": "payments" }));
    kept.seen("payments-1", ONLINE);
    kept.settle();
    kept
}

fn web(kept: &mut Kept, admission: Option<Admission>) {
    kept.brought("web-1", &serves(&[("web", 80)]), &json!({ "app": "payments" }), admission);
    kept.seen("web-1", ONLINE);
    kept.settle();
}

fn identities(kept: &Kept) -> Vec<&str> {
    kept.world.spec("payments").identities.iter().flatten().map(|identity| identity.value.as_str()).collect()
}

#[test]
fn label_that_the_token_does_not_bind_adds_no_identity() {
    let mut kept = payments();
    assert_eq!(identities(&kept), ["payments"]);
    web(&mut kept, Some(bound(&[])));
    assert_eq!(identities(&kept), ["payments"]);
    assert_eq!(kept.world.counts("payments"), [2, 1, 2], "it is not healthy here, as it is not called");
    let conditions = &kept.world.status("payments").conditions;
    assert_eq!((conditions.len(), conditions[0].condition_type.as_str()), (1, "MembersVouchedFor"));
    assert_eq!(
        conditions[0].message,
        "Dataplanes \"web-1\" are no endpoints, and their identities are not accepted: the selector matches what their \
         tokens do not bind. Issue their tokens with --label app=payments in `kodiak generate dataplane-token`, or apply \
         the Dataplanes as a user and start their proxies without --dataplane-file."
    );
    kept.gone("payments-1");
    kept.settle();
    assert_eq!(identities(&kept), ["payments"], "who is alone is not accepted either");
    assert!(!kept.world.is_available("payments"));
}

#[test]
fn members_with_bound_fields_are_accepted() {
    let unbound = Admission { tags: ["version".to_owned()].into(), ..Admission::default() };
    for admission in [None, Some(bound(&["app"])), Some(Admission::default()), Some(unbound)] {
        let mut kept = payments();
        web(&mut kept, Some(bound(&[])));
        web(&mut kept, admission);
        assert_eq!(identities(&kept), ["payments", "web"]);
        assert_eq!(kept.world.counts("payments"), [2, 2, 2]);
        assert!(kept.world.status("payments").conditions.is_empty(), "there is nothing left to tell");
    }
}

#[test]
fn generated_services_accept_proxies_whose_token_binds_the_service() {
    let mut kept = Kept::new();
    kept.brought("web-1", &serves(&[("web", 80)]), &json!({}), Some(bound(&[])));
    kept.seen("web-1", ONLINE);
    kept.settle();
    assert_eq!(kept.world.spec("web").identities.as_ref().unwrap()[0].value, "web");
    assert_eq!(kept.world.counts("web"), [1, 1, 1]);
}

/// The token of the identity guide (`--workload web`) with the label of another service.
#[test]
fn workload_token_takes_over_no_service() {
    let workload = Admission { labels: ["kuma.io/workload".to_owned()].into(), ..Admission::default() };
    let identity = AppliedIdentity {
        trust_domain: "td".into(),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    };
    let issuers = Issuers { identities: vec![Arc::new(identity)], ..Issuers::default() };
    let mut kept = payments();
    let rollout = Rollout { issuers, call: true, ..Rollout::default() };
    kept.mesh_at(MeshServicesMode::Exclusive, true, rollout);
    let claims = json!({ "app": "payments", "kuma.io/workload": "web" });
    kept.brought("web-1", &serves(&[("web", 80)]), &claims, Some(workload));
    kept.seen("web-1", ONLINE);
    kept.settle();
    assert_eq!(identities(&kept), ["payments"]);
    assert_eq!(kept.world.counts("payments"), [2, 1, 2], "it is not healthy here, as it is not called");
    // The same proxy for its own service, which is generated.
    let web = kept.world.spec("web");
    let accepted: Vec<&str> = web.identities.iter().flatten().map(|identity| identity.value.as_str()).collect();
    assert_eq!(accepted, ["web", "spiffe://td/workload/web"]);
    assert!(kept.world.status("web").conditions.is_empty());
}

/// A MeshMultiZoneService selects MeshServices by the labels that they copy from Dataplanes.
#[test]
fn claimed_service_changes_neither_ports_nor_labels_of_the_generated_one() {
    let mut kept = Kept::new();
    let rules = Rules { propagation: Some(Propagation::default()), ..Rules::default() };
    kept.keeper = kept.world.keeper_with(ServiceSettings { rules, ..ServiceSettings::default() }, 0, false);
    let team = |kept: &Kept| kept.world.services[&service("payments")].labels.get("team").cloned();
    let of_service = Admission { tags: ["kuma.io/service".to_owned()].into(), ..Admission::default() };
    let app = json!({ "team": "payments" });
    kept.brought("payments-1", &serves(&[("payments", 80)]), &json!({}), Some(of_service.clone()));
    kept.settle();
    assert_eq!(team(&kept), None);
    let workload = Admission { labels: ["kuma.io/workload".to_owned()].into(), ..Admission::default() };
    for name in ["a-1", "a-2"] {
        kept.brought(name, &serves(&[("payments", 99)]), &app, Some(workload.clone()));
    }
    kept.brought("payments-1", &serves(&[("payments", 81)]), &app, Some(of_service.clone()));
    kept.settle();
    let ports: Vec<u32> = kept.world.spec("payments").ports.iter().map(|port| port.port).collect();
    assert_eq!(ports, [81]);
    assert_eq!(team(&kept), None, "its token binds no label");
    let bound = Admission { labels: ["team".to_owned()].into(), ..of_service };
    kept.brought("payments-1", &serves(&[("payments", 81)]), &app, Some(bound));
    kept.settle();
    assert_eq!(team(&kept).as_deref(), Some("payments"));
}
