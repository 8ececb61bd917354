//! Every row of the table of steps.

use kodiak_model::kinds::mesh::MeshServicesMode;

use crate::plan::{Action, Call, Facts, Moving, plan};

fn facts(mode: MeshServicesMode) -> Facts {
    Facts {
        mesh: "demo".to_owned(),
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
        watched: None,
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

/// From the first of them on, each is the reason for the next step.
type Undo = fn(&mut Facts);

const REASONS: [(Action, Undo); 8] = [
    (Action::Wait, |facts| facts.not_there.clear()),
    (Action::Convert, |facts| facts.convertible = 0),
    (Action::LookAtPolicies, |facts| facts.unclear.clear()),
    (Action::WriteServices, |facts| facts.never_there.clear()),
    (Action::LookAtRoutes, |facts| facts.routes.clear()),
    (Action::ListBackends, |facts| facts.unlisted.clear()),
    (Action::MoveConsumers, |facts| facts.moving.clear()),
    (Action::Watch, |facts| facts.unknown.clear()),
];

#[test]
fn nothing_is_removed_while_it_is_in_use() {
    for mode in [MeshServicesMode::Everywhere, MeshServicesMode::ReachableBackends] {
        let mut facts = busy(mode);
        for (action, undo) in REASONS {
            // Where everybody sees everything, nothing needs to be listed.
            if action != Action::ListBackends || mode == MeshServicesMode::ReachableBackends {
                let next = plan(&facts).next;
                assert_eq!(next.action, action, "{mode:?}: {}", next.why);
                assert!(!next.commands.is_empty() && !next.why.is_empty());
            }
            undo(&mut facts);
        }
        let next = plan(&facts).next;
        assert_eq!((next.action, next.title.as_str()), (Action::Watch, "watch for a while"));
        facts.watched = Some("1h".to_owned());
        let next = plan(&facts).next;
        assert_eq!((next.action, next.title.as_str()), (Action::SetMode, "set meshServices.mode: Exclusive"));
        assert_eq!(next.why, "no proxy called a legacy cluster in the last 1h");
    }
}

#[test]
fn first_step_changes_no_existing_configuration() {
    let first = plan(&busy(MeshServicesMode::Disabled));
    assert_eq!(first.next.title, "set meshServices.mode: Everywhere");
    assert_eq!(
        first.next.why,
        "MeshServices come beside what is there: 2 new clusters for each of 3 proxies; names, addresses and clusters of today \
         stay as they are"
    );
    assert_eq!(first.next.commands[2], "kodiak apply -f mesh.yaml");
    let also: Vec<_> = first.also.iter().map(|step| step.title.as_str()).collect();
    assert_eq!(also, ["set meshServices.mode: ReachableBackends"]);
    assert_eq!(first.back, []);
}

#[test]
fn resolved_findings_do_not_block() {
    let mut facts = busy(MeshServicesMode::Everywhere);
    facts.not_there.clear();
    facts.convertible = 0;
    assert_eq!(plan(&facts).next.action, Action::LookAtPolicies);
    facts.examined = true;
    assert_eq!(plan(&facts).next.action, Action::MoveConsumers);
}

#[test]
fn moving_consumers_get_the_replacement() {
    let moving = Facts { moving: busy(MeshServicesMode::Everywhere).moving, ..facts(MeshServicesMode::Everywhere) };
    let next = plan(&moving).next;
    assert_eq!(next.moving, moving.moving);
    assert_eq!(
        next.why,
        "1 consumer has called legacy clusters since its proxy started; watch for a while to see who still does"
    );
    let watched = Facts { watched: Some("5m".to_owned()), ..moving };
    assert_eq!(plan(&watched).next.why, "1 consumer called legacy clusters in the last 5m");
}

#[test]
fn last_step_removes_legacy_references_and_every_step_has_a_rollback() {
    let alone = plan(&busy(MeshServicesMode::Exclusive));
    assert_eq!(
        (alone.next.action, alone.back[0].title.as_str()),
        (Action::DropOldItems, "set meshServices.mode: Everywhere")
    );
    let unconverted = Facts { convertible: 1, ..facts(MeshServicesMode::Exclusive) };
    assert_eq!(plan(&unconverted).next.commands, ["kodiak migrate services convert --mesh demo --replace --apply"]);
    assert_eq!(plan(&facts(MeshServicesMode::Exclusive)).next.action, Action::Nothing);
    let back = plan(&facts(MeshServicesMode::Everywhere)).back;
    assert_eq!(back[0].title, "set meshServices.mode: Disabled");
}

#[test]
fn calls_to_several_zones_are_reported_before_the_last_mode() {
    for (mode, expected) in
        [(MeshServicesMode::Disabled, true), (MeshServicesMode::Everywhere, true), (MeshServicesMode::Exclusive, false)]
    {
        let facts = Facts { cross_zone: one("api"), ..facts(mode) };
        let told = plan(&facts).also.iter().any(|step| step.action == Action::MakeMultiZoneServices);
        assert_eq!(told, expected, "{mode:?}");
    }
}
