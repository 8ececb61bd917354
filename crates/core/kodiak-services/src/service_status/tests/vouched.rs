//! A MeshService does not accept an identity because a proxy says so.

use super::*;

/// Of a token that binds `kuma.io/service` and these labels.
fn bound(labels: &[&str]) -> Admission {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    Admission { tags: ["kuma.io/service".to_owned()].into(), labels, name: false }
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
        "Dataplanes \"web-1\" match the selector by what their tokens do not bind (label app); their identities are not \
         accepted. Issue tokens that bind it, or write the Dataplanes as a user."
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
