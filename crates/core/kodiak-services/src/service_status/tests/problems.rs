//! Conditions about conflicts of generated MeshServices, and about services that cannot be called.

use kodiak_model::{Condition, InboundTls, kinds::mesh_external_service::MeshExternalServiceStatus};
use kodiak_rollout::{AppliedIdentity, AppliedProvider, Issuers, Selector};

use super::*;

fn shown(conditions: &[Condition]) -> Vec<String> {
    let text = |Condition { condition_type, status, reason, message }: &Condition| {
        format!("{condition_type} {status} {reason}: {message}")
    };
    conditions.iter().map(text).collect()
}

#[test]
fn dataplanes_with_other_ports_are_named_until_they_agree() {
    let mut kept = Kept::new();
    kept.dataplane("a", &serves(&[("web", 80)]));
    kept.dataplane("b", &serves(&[("web", 81)]));
    kept.settle();
    let expected = "PortsMatch False DataplanePortsDiffer: Dataplanes \"b\" and this MeshService have different ports; \
                    clients reach only the ports of the MeshService. Give all Dataplanes of a service the same ports.";
    assert_eq!(shown(&kept.world.status("web").conditions), [expected]);
    assert_eq!(kept.restart(true), [], "a new leader agrees");
    kept.dataplane("b", &serves(&[("web", 80)]));
    kept.settle();
    assert_eq!(kept.world.status("web").conditions, []);
}

#[test]
fn many_dataplanes_are_counted() {
    let mut kept = Kept::new();
    kept.dataplane("a", &serves(&[("web", 80)]));
    for n in 10..22 {
        kept.dataplane(&format!("b{n}"), &serves(&[("web", 81)]));
    }
    kept.settle();
    let message = &kept.world.status("web").conditions[0].message;
    assert!(message.contains("\"b19\" and 2 more and this MeshService"), "{message}");
}

#[test]
fn mesh_service_of_a_user_names_the_dataplanes_that_it_keeps_from_a_generated_one() {
    let mut kept = Kept::new();
    kept.dataplane("a", &serves(&[("web", 80)]));
    let selecting = |tag: &str| json!({ "selector": { "dataplaneTags": { "kuma.io/service": tag } } });
    kept.put_service("web", &json!({}), &selecting("other"));
    kept.settle();
    let expected = "DataplanesSelected False NameConflict: Dataplanes \"a\" serve \"web\", and this MeshService of the \
                    same name does not select them; none is generated for them. Select them, or rename the MeshService.";
    assert_eq!(shown(&kept.world.status("web").conditions), [expected]);
    kept.put_service("web", &json!({}), &selecting("web"));
    kept.settle();
    assert_eq!(kept.world.status("web").conditions, []);
    kept.put_service("web", &json!({}), &selecting("other"));
    kept.mesh(MeshServicesMode::Disabled, false);
    kept.settle();
    assert_eq!(kept.world.status("web").conditions, [], "without a mode that generates");
}

#[test]
fn external_service_with_faulty_tls_says_so() {
    let mut kept = Kept::new();
    let key = ServiceKey { kind: BackendKind::MeshExternalService, ..service("bank") };
    let fault = "spec.tls.verification.caCert cannot be used: Secret \"ca\" does not exist in mesh \"demo\"";
    let with = |fault: Option<&str>| Content::External {
        fault: fault.map(str::to_owned),
        status: MeshExternalServiceStatus::default(),
    };
    kept.put(&key, &json!({}), with(Some(fault)));
    kept.settle();
    let conditions = |kept: &Kept| match &kept.world.services[&key].content {
        Content::External { status, .. } => shown(&status.conditions),
        _ => panic!("no MeshExternalService"),
    };
    assert_eq!(conditions(&kept), [format!("TlsReady False TlsSettingsInvalid: {fault}")]);
    kept.put(&key, &json!({}), with(None));
    kept.settle();
    assert_eq!(conditions(&kept), [""; 0]);
}

#[test]
fn members_without_a_certificate_are_named_where_the_mesh_refuses_plain_text() {
    let mut kept = Kept::new();
    let selector = json!({ "dataplaneLabels": { "matchLabels": { "app": "web" } } });
    let ports = json!([{ "port": 80, "targetPort": 80 }]);
    kept.put_service("web", &json!({}), &json!({ "selector": selector, "ports": ports }));
    kept.dataplane_with("a", &serves(&[("web", 80)]), &json!({ "app": "web", "id": "yes", "kuma.io/workload": "a" }));
    kept.dataplane_with("b", &serves(&[("web", 80)]), &json!({ "app": "web" }));
    kept.seen("a", ONLINE);
    kept.seen("b", ONLINE);
    let identity = AppliedIdentity {
        name: "all".into(),
        trust_domain: "demo".into(),
        selector: Selector([("id".to_owned(), "yes".to_owned())].into()),
        provider: Some(AppliedProvider::Bundled { ca: "ca".into(), seconds: 60 }),
        ..AppliedIdentity::default()
    };
    let issuers = Issuers { identities: vec![identity.into()], ..Issuers::default() };
    let at = |accept| Rollout { accept, call: true, issuers: issuers.clone(), ..Rollout::default() };
    kept.mesh_at(MeshServicesMode::Exclusive, true, at(InboundTls::Permissive));
    kept.settle();
    assert_eq!((kept.world.counts("web"), kept.world.status("web").conditions.len()), ([2, 2, 2], 0));
    kept.mesh_at(MeshServicesMode::Exclusive, true, at(InboundTls::Strict));
    kept.settle();
    let expected = "MembersHaveCertificates False NoCertificate: Dataplanes \"b\" get no certificate from a MeshIdentity, and \
                    the mesh refuses plain text; they are not called. Add the labels that a MeshIdentity selects and \
                    uses, or enable an mTLS backend of the Mesh.";
    assert_eq!(shown(&kept.world.status("web").conditions), [expected]);
    assert_eq!(kept.world.counts("web"), [2, 1, 2], "it is not healthy here, as it is not called");
    kept.dataplane_with("b", &serves(&[("web", 80)]), &json!({ "app": "web", "id": "yes", "kuma.io/workload": "b" }));
    kept.settle();
    assert_eq!(kept.world.status("web").conditions, []);
}
