//! Every row of the table of steps.

use kodiak_model::kinds::mesh::MeshServicesMode;

use crate::{
    Break, BreakReason, OldItems,
    plan::{Because, Broken, Call, Facts, Moving, Step, plan},
};

fn facts(mode: MeshServicesMode) -> Facts {
    Facts {
        mode,
        consumers: 3,
        clusters: 2,
        not_there: Vec::new(),
        never_there: Vec::new(),
        convertible: 0,
        converted: 0,
        unclear: Vec::new(),
        routes: Vec::new(),
        examined: false,
        unlisted: Vec::new(),
        moving: Vec::new(),
        unknown: Vec::new(),
        cross_zone: Vec::new(),
        watched: false,
        broken: Vec::new(),
        calling_objects: Vec::new(),
    }
}

fn one(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Everything at once, which is done away with step by step.
fn busy(mode: MeshServicesMode) -> Facts {
    let call = Call { service: "web".to_owned(), hostnames: one("web.svc.mesh.local") };
    Facts {
        not_there: one("api"),
        never_there: one("a.b"),
        convertible: 2,
        converted: 1,
        unclear: one("MeshTimeout odd"),
        routes: one("MeshHTTPRoute split"),
        unlisted: one("client"),
        moving: vec![Moving { consumer: "client".to_owned(), calls: vec![call] }],
        unknown: one("away"),
        ..facts(mode)
    }
}

type Undo = fn(&mut Facts);

/// From the first of them on, each is the reason for the next step.
fn reasons(facts: &Facts) -> [(Step, Undo); 8] {
    let Facts { not_there, unclear, never_there, routes, unlisted, moving, unknown, .. } = facts.clone();
    [
        (Step::Wait(not_there), |facts| facts.not_there.clear()),
        (Step::Convert(2, OldItems::Kept), |facts| facts.convertible = 0),
        (Step::LookAtPolicies(unclear), |facts| facts.unclear.clear()),
        (Step::WriteServices(never_there), |facts| facts.never_there.clear()),
        (Step::LookAtRoutes(routes), |facts| facts.routes.clear()),
        (Step::ListBackends(unlisted), |facts| facts.unlisted.clear()),
        (Step::MoveConsumers(moving), |facts| facts.moving.clear()),
        (Step::Connect(unknown), |facts| facts.unknown.clear()),
    ]
}

#[test]
fn nothing_is_removed_while_it_is_in_use() {
    for mode in [MeshServicesMode::Everywhere, MeshServicesMode::ReachableBackends] {
        let mut facts = busy(mode);
        for (step, undo) in reasons(&busy(mode)) {
            // Where everybody sees everything, nothing needs to be listed.
            if mode == MeshServicesMode::ReachableBackends || !matches!(step, Step::ListBackends(_)) {
                assert_eq!(plan(&facts).next, step, "{mode:?}");
            }
            undo(&mut facts);
        }
        assert_eq!(plan(&facts).next, Step::Watch);
        facts.watched = true;
        facts.broken = broken(MeshServicesMode::Exclusive);
        assert_eq!(plan(&facts).next, Step::FixConsumers(facts.broken.clone()));
        facts.broken.clear();
        assert_eq!(plan(&facts).next, Step::SetMode(MeshServicesMode::Exclusive, Because::Unused));
    }
}

fn broken(mode: MeshServicesMode) -> Vec<Broken> {
    let lost = Break { mode, destination: "web".to_owned(), reason: BreakReason::NotReachable };
    vec![Broken { consumer: "client".to_owned(), lost }]
}

#[test]
fn broken_consumers_come_first_in_exclusive_mode() {
    let broken = broken(MeshServicesMode::Exclusive);
    let facts = Facts { broken: broken.clone(), ..busy(MeshServicesMode::Exclusive) };
    assert_eq!(plan(&facts).next, Step::FixConsumers(broken));
}

#[test]
fn mode_that_hides_objects_is_not_offered() {
    let facts = Facts { broken: broken(MeshServicesMode::ReachableBackends), ..facts(MeshServicesMode::Disabled) };
    assert_eq!(plan(&facts).also, []);
}

#[test]
fn rollback_waits_for_callers_of_objects() {
    let facts = Facts { calling_objects: one("client"), ..facts(MeshServicesMode::Everywhere) };
    assert_eq!(plan(&facts).back, [Step::MoveBack(one("client"))]);
}

#[test]
fn first_step_changes_no_existing_configuration() {
    let first = plan(&busy(MeshServicesMode::Disabled));
    let adds = Because::OnlyAdds { clusters: 2, consumers: 3 };
    assert_eq!(first.next, Step::SetMode(MeshServicesMode::Everywhere, adds));
    assert_eq!(first.also, [Step::SetMode(MeshServicesMode::ReachableBackends, Because::OneByOne)]);
    assert_eq!(first.back, []);
}

#[test]
fn resolved_findings_do_not_block() {
    let mut facts = busy(MeshServicesMode::Everywhere);
    facts.not_there.clear();
    facts.convertible = 0;
    assert!(matches!(plan(&facts).next, Step::LookAtPolicies(_)));
    facts.examined = true;
    assert!(matches!(plan(&facts).next, Step::MoveConsumers(_)));
}

#[test]
fn last_step_removes_legacy_references_and_every_step_has_a_rollback() {
    let rollback = |mode| vec![Step::SetMode(mode, Because::Rollback)];
    let alone = plan(&busy(MeshServicesMode::Exclusive));
    assert_eq!((alone.next, alone.back), (Step::DropOldItems(1), rollback(MeshServicesMode::Everywhere)));
    let unconverted = Facts { convertible: 1, ..facts(MeshServicesMode::Exclusive) };
    assert_eq!(plan(&unconverted).next, Step::Convert(1, OldItems::Dropped));
    assert_eq!(plan(&facts(MeshServicesMode::Exclusive)).next, Step::Nothing);
    assert_eq!(plan(&facts(MeshServicesMode::Everywhere)).back, rollback(MeshServicesMode::Disabled));
}

#[test]
fn calls_to_several_zones_are_reported_before_the_last_mode() {
    for (mode, expected) in
        [(MeshServicesMode::Disabled, true), (MeshServicesMode::Everywhere, true), (MeshServicesMode::Exclusive, false)]
    {
        let facts = Facts { cross_zone: one("api"), ..facts(mode) };
        let told = plan(&facts).also.contains(&Step::MakeMultiZoneServices(one("api")));
        assert_eq!(told, expected, "{mode:?}");
    }
}
