//! A CA that has expired or cannot be read: proxies get all but what needs it.

use jiff::SignedDuration;
use kodiak_model::{Kri, kinds::mesh_external_service::Source};
use kodiak_rollout::{AppliedBackend, DesiredIdentities, Rollout};
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;
use serde_json::json;

use super::{
    world::{MESH, dataplane_change, key, mesh_change},
    *,
};
use crate::{ClientPair, LeafIssuer, LeafRequest};

/// CAs that issue nothing, and those whose roots cannot be read either.
struct Cas {
    dead: &'static [&'static str],
    unreadable: &'static [&'static str],
}

const DEAD: Cas = Cas { dead: &["dead", "unreadable"], unreadable: &["unreadable"] };
const LIVE: Cas = Cas { dead: &[], unreadable: &[] };

impl Identities for Cas {
    fn leaf(&self, request: &LeafRequest, now: Timestamp) -> Result<Arc<Leaf>, String> {
        let LeafIssuer::Backend(backend) = &request.issuer else { panic!("there is none") };
        if self.dead.contains(&&*backend.name) {
            return Err(format!("the CA of {backend} expired"));
        }
        Ok(Arc::new(Leaf {
            identity: Identity { certificate: "cert".into(), key: "key".into() },
            serial: "1".into(),
            spiffe_id: "spiffe://default/web".into(),
            version: Version(1),
            not_after: now.checked_add(SignedDuration::from_hours(2)).unwrap(),
            renew_at: now.checked_add(SignedDuration::from_hours(1)).unwrap(),
        }))
    }

    fn roots(&self, _: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        let is_unreadable = self.unreadable.contains(&&*backend.name);
        if is_unreadable { Err("its file was removed".to_owned()) } else { Ok(backend.name.clone()) }
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

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + second).unwrap()
}

/// The proxy connects now: nothing was issued to it before.
fn connected(backends: &[&str], cas: &Cas) -> (Engine, Updated) {
    let mut engine = Engine::new(World::settings(Mode::Off));
    let mesh = mesh(backends);
    let target = Rollout::target(&serde_json::from_str(&mesh).unwrap(), &DesiredIdentities::default());
    let changes = [
        mesh_change(&mesh, None),
        EngineChange::Rollout { mesh: MESH.into(), rollout: Some(target) },
        dataplane_change("web-1", Some(&dataplane("web-1", &[inbound(80, "web", "http")], &[(10001, "web")]))),
        EngineChange::Connected { key: key("web-1"), metadata: Arc::default() },
    ];
    let mut outcome = engine.apply(changes, cas, at(0));
    let updated = outcome.proxies.pop().expect("the proxy has a configuration");
    (engine, updated)
}

/// What is reported about the proxy's secrets after the time passed. `None` if nothing is.
#[expect(clippy::option_option, reason = "a report without a failure is one, too")]
fn reported(engine: &mut Engine, cas: &Cas, now: Timestamp) -> Option<Option<String>> {
    let mut outcome = engine.apply([EngineChange::Tick], cas, now);
    Some(outcome.proxies.pop()?.issued.unwrap().failure)
}

#[test]
fn trusted_cas_and_all_else_are_published_without_the_certificate() {
    let (_, updated) = connected(&["dead", "next"], &DEAD);
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
    let (_, updated) = connected(&["unreadable"], &DEAD);
    assert_eq!(updated.faults, [""; 0]);
    let snapshot = updated.snapshot.unwrap();
    assert!(snapshot.of(TypeUrl::Secret).is_empty());
    assert!(snapshot.of(TypeUrl::Listener).keys().any(|name| name.starts_with("inbound:")));
    assert_eq!(&*updated.rollout, "");
}

#[test]
fn trusted_cas_that_cannot_be_read_are_reported_until_they_can() {
    let unreadable = Cas { dead: &[], unreadable: &["next"] };
    let reason = Some("cannot read the trusted CAs: its file was removed");
    let (mut engine, updated) = connected(&["live", "next"], &unreadable);
    assert_eq!(updated.issued.unwrap().failure.as_deref(), reason, "the certificate itself could be issued");
    assert_eq!(&*updated.rollout, "");
    assert_eq!(reported(&mut engine, &unreadable, at(1)), None, "nothing changed");
    assert_eq!(reported(&mut engine, &LIVE, at(2)), Some(None));
    assert_eq!(reported(&mut engine, &LIVE, at(3)), None);
}

#[test]
fn failed_renewal_is_reported_until_it_succeeds() {
    let dead = Cas { dead: &["ca"], unreadable: &[] };
    let (mut engine, updated) = connected(&["ca"], &LIVE);
    assert_eq!(updated.issued.unwrap().failure, None);
    assert_eq!(reported(&mut engine, &dead, at(3600)), Some(Some("the CA of ca expired".to_owned())));
    assert_eq!(reported(&mut engine, &dead, at(3601)), None, "nothing changed");
    // The test CA issues an equal certificate.
    assert_eq!(reported(&mut engine, &LIVE, at(3700)), Some(None));
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
