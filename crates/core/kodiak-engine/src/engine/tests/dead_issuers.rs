//! A CA that has expired or cannot be read: proxies get all but what needs it.

use kodiak_model::{Kri, kinds::mesh_external_service::Source};
use kodiak_rollout::{AppliedBackend, DesiredIdentities, Rollout};
use kodiak_xds::input::AdminCertificate;
use serde_json::json;

use super::{
    world::{MESH, dataplane_change, key, mesh_change},
    *,
};
use crate::{ClientPair, LeafIssuer, LeafRequest};

/// `dead` issues nothing, and the roots of `unreadable` cannot be read either.
struct Cas;

impl Identities for Cas {
    fn leaf(&self, request: &LeafRequest, _: Timestamp) -> Result<Arc<Leaf>, String> {
        match &request.issuer {
            LeafIssuer::Backend(backend) => Err(format!("the CA of {backend} expired")),
            LeafIssuer::Identity { .. } => panic!("there is none"),
        }
    }

    fn roots(&self, _: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        if *backend.name == *"unreadable" { Err("its file was removed".to_owned()) } else { Ok(backend.name.clone()) }
    }

    fn source(&self, _: &str, _: &Source) -> Result<Arc<str>, String> {
        panic!("there is none")
    }

    fn client_pair(&self, _: &Kri, _: ClientPair) -> Result<ClientPair, String> {
        panic!("there is none")
    }

    fn admin(&self, _: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        None
    }
}

fn mesh(backends: &[&str]) -> String {
    let backends: Vec<_> = backends.iter().map(|name| json!({ "name": name, "type": "builtin" })).collect();
    json!({ "mtls": { "enabledBackend": backends[0]["name"], "backends": backends } }).to_string()
}

/// The proxy connects now: nothing was issued to it before.
fn connected(backends: &[&str]) -> Updated {
    let mut engine = Engine::new(World::settings(Mode::Off));
    let mesh = mesh(backends);
    let target = Rollout::target(&serde_json::from_str(&mesh).unwrap(), &DesiredIdentities::default());
    let changes = [
        mesh_change(&mesh, None),
        EngineChange::Rollout { mesh: MESH.into(), rollout: Some(target) },
        dataplane_change("web-1", Some(&dataplane("web-1", &[inbound(80, "web", "http")], &[(10001, "web")]))),
        EngineChange::Connected { key: key("web-1"), metadata: Arc::default() },
    ];
    let mut outcome = engine.apply(changes, &Cas, Timestamp::from_second(1_000_000).unwrap());
    outcome.proxies.pop().expect("the proxy has a configuration")
}

#[test]
fn trusted_cas_and_all_else_are_published_without_the_certificate() {
    let updated = connected(&["dead", "next"]);
    assert_eq!(updated.faults, [""; 0]);
    let snapshot = updated.snapshot.unwrap();
    let secrets: Vec<_> = snapshot.of(TypeUrl::Secret).keys().map(ToString::to_string).collect();
    assert_eq!(secrets, ["mesh_ca:secret:default", "mesh_ca:secret:default:web"]);
    assert!(snapshot.of(TypeUrl::Listener).keys().any(|name| name.starts_with("inbound:")));
    assert!(snapshot.of(TypeUrl::Cluster).contains_key("web"));
    assert_eq!(&*updated.rollout, "accept=mtls call=mtls signer=dead trust=dead,next", "so another CA can take over");
    assert_eq!(updated.issued.unwrap().failure.as_deref(), Some("the CA of dead expired"));
}

#[test]
fn step_whose_cas_cannot_be_read_is_not_acknowledged() {
    let updated = connected(&["unreadable"]);
    assert_eq!(updated.faults, [""; 0]);
    let snapshot = updated.snapshot.unwrap();
    assert!(snapshot.of(TypeUrl::Secret).is_empty());
    assert!(snapshot.of(TypeUrl::Listener).keys().any(|name| name.starts_with("inbound:")));
    assert_eq!(&*updated.rollout, "");
}

#[test]
fn unreadable_record_of_the_rollout_publishes_nothing_until_it_is_read() {
    let mut world = World::default();
    world.mesh(&mesh(&["ca"]));
    world.apply(EngineChange::UnreadableRollout { mesh: MESH.into() });
    world.dataplane("web-1", dataplane("web-1", &[inbound(80, "web", "http")], &[]));
    let outcome = world.connect("web-1");
    let [updated] = &outcome.proxies[..] else { panic!("{outcome:?}") };
    assert!(updated.snapshot.is_none(), "the mesh may be steps away from its target");
    assert!(updated.faults[0].contains("cannot read its record"), "{:?}", updated.faults);
    let plain = Rollout::default();
    world.rollout(Some(plain.clone()));
    let before = world.snapshot("web-1");
    // The last step that could be read stays.
    world.apply(EngineChange::UnreadableRollout { mesh: MESH.into() });
    assert_eq!(world.snapshot("web-1"), before);
}
