//! Who holds up a step, and for how long.

use jiff::{SignedDuration, Timestamp};
use kodiak_rollout::TrustDomains;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::AbsenceLimits;

const GRACE: i64 = 30;
const OLD_TRUST: i64 = 3600;
/// Time at which the current step was taken.
const TAKEN: i64 = 10_000;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn moment(second: i64) -> Moment {
    let limits = AbsenceLimits {
        connection_grace: SignedDuration::from_secs(GRACE),
        old_trust: SignedDuration::from_secs(OLD_TRUST),
        since: Timestamp::UNIX_EPOCH,
    };
    Moment { now: at(second), limits }
}

fn mesh() -> Arc<Mesh> {
    let mesh = r#"{"mtls": {"enabledBackend": "ca", "backends": [{"name": "ca", "type": "builtin"}]}}"#;
    serde_json::from_str(mesh).unwrap()
}

fn strict() -> Rollout {
    Rollout::target(&mesh(), &DesiredIdentities::default())
}

fn after(step: &Rollout) -> Rollout {
    step.next(&strict(), false).unwrap().1
}

/// With a certificate of an hour, since it was taken.
fn proxy(acknowledged: &Rollout, left: Option<i64>, rejecting: &str) -> ObservedProxy {
    ObservedProxy::of(&insight(acknowledged, left, rejecting))
}

/// At `step`, with the one before it, and the target of [`mesh`].
fn progress(before: &Rollout, step: &Rollout, proxies: &[(&str, ObservedProxy)]) -> Progress {
    let current = RolloutRecord { step: before.clone(), taken: None, behind: Vec::new() };
    Progress {
        mesh: Some(mesh()),
        current: Some(current.advanced(step.clone(), true, at(TAKEN))),
        proxies: proxies.iter().map(|(name, proxy)| (Arc::from(*name), proxy.clone())).collect(),
        ..Progress::default()
    }
}

#[track_caller]
fn taken(progress: &Progress, second: i64) -> RolloutRecord {
    match progress.step(&moment(second)) {
        Step::Take { next, .. } => *next,
        other => panic!("no step is taken: {other:?}"),
    }
}

#[track_caller]
fn waits(progress: &Progress, second: i64) -> Vec<String> {
    match progress.step(&moment(second)) {
        Step::Wait { proxies, .. } => proxies.iter().map(ToString::to_string).collect(),
        other => panic!("it does not wait: {other:?}"),
    }
}

#[test]
fn new_mesh_starts_at_its_target() {
    let progress = Progress { mesh: Some(mesh()), ..Progress::default() };
    assert_eq!(taken(&progress, 0).step, strict());
}

#[test]
fn step_waits_for_every_connected_proxy() {
    let (off, both) = (Rollout::default(), after(&Rollout::default()));
    let mut progress = progress(
        &off,
        &both,
        &[
            ("a", proxy(&both, None, "")),
            ("b", proxy(&off, None, "")),
            ("c", proxy(&off, None, "lds: cannot bind")),
            ("offline", proxy(&off, Some(TAKEN - GRACE), "")),
        ],
    );
    assert_eq!(waits(&progress, TAKEN), ["b (has not acknowledged)", "c (rejected lds: cannot bind)"]);
    for name in ["b", "c"] {
        progress.proxies.insert(name.into(), proxy(&both, None, ""));
    }
    assert_eq!(taken(&progress, TAKEN).step, after(&both));
    progress.current = Some(RolloutRecord::first(strict(), at(TAKEN)));
    assert_eq!(progress.step(&moment(TAKEN)), Step::Done);
}

#[test]
fn proxy_that_lost_its_connection_holds_up_steps_for_the_grace_period() {
    let (off, both) = (Rollout::default(), after(&Rollout::default()));
    for (acknowledged, holds_up) in [(&off, true), (&both, false)] {
        let proxies = [("a", proxy(&both, None, "")), ("blink", proxy(acknowledged, Some(TAKEN + 5), ""))];
        let progress = progress(&off, &both, &proxies);
        if holds_up {
            let until = at(TAKEN + 5 + GRACE);
            let expected = format!("blink (lost its connection, and is waited for until {until})");
            assert_eq!(waits(&progress, TAKEN + 5), std::slice::from_ref(&expected));
            assert_eq!(waits(&progress, TAKEN + 5 + GRACE - 1), [expected]);
            let Step::Wait { proxies, .. } = progress.step(&moment(TAKEN + 5)) else { panic!("it waits") };
            assert_eq!(proxies[0].reason.until(), Some(until), "the rollout is looked at again then");
        } else {
            assert_eq!(taken(&progress, TAKEN + 5).step, after(&both), "it has the step");
        }
        assert_eq!(taken(&progress, TAKEN + 5 + GRACE).step, after(&both));
    }
}

#[test]
fn without_connected_proxies_every_step_lasts_for_the_grace_period() {
    let off = Rollout::default();
    let mut step = RolloutRecord { step: off.clone(), taken: None, behind: Vec::new() };
    let (mut now, mut steps) = (TAKEN, 0);
    loop {
        let mut progress = progress(&off, &off, &[("a", proxy(&Rollout { repeat: 9, ..off.clone() }, Some(0), ""))]);
        progress.current = Some(step.clone());
        match progress.step(&moment(now)) {
            Step::Take { next, .. } => {
                assert_eq!(next.taken, Some(at(now)));
                (step, steps) = (*next, steps + 1);
            }
            Step::Wait { proxies, .. } => {
                assert_eq!(proxies[0].reason.until(), Some(step.taken.unwrap() + SignedDuration::from_secs(GRACE)));
                now += GRACE;
            }
            Step::Done => break,
            other @ Step::Unreadable(_) => panic!("{other:?}"),
        }
    }
    assert_eq!((steps, now), (3, TAKEN + 2 * GRACE), "no two steps at the same time");
}

#[test]
fn proxies_can_come_back_after_a_start_of_the_control_plane() {
    let (off, both) = (Rollout::default(), after(&Rollout::default()));
    let proxies = [("a", proxy(&both, None, "")), ("b", proxy(&off, Some(TAKEN), ""))];
    let progress = progress(&off, &both, &proxies);
    let start = TAKEN + 3600;
    let at_start = |second| Moment { limits: AbsenceLimits { since: at(start), ..moment(0).limits }, ..moment(second) };
    assert!(matches!(progress.step(&at_start(start)), Step::Wait { .. }), "nobody could connect for an hour");
    assert!(matches!(progress.step(&at_start(start + GRACE)), Step::Take { .. }));
}

#[test]
fn mesh_whose_proxies_never_connected_takes_steps_at_once() {
    let progress = progress(&Rollout::default(), &Rollout::default(), &[]);
    assert_eq!(taken(&progress, TAKEN).step, after(&Rollout::default()));
}

/// Trusts another CA, which is not in use any more.
fn with_old_trust() -> Rollout {
    Rollout { trust: vec!["ca".into(), "old".into()], ..strict() }
}

#[test]
fn old_trust_stays_until_the_certificate_of_an_offline_proxy_expires() {
    let issue = with_old_trust();
    let expect = Rollout {
        issuers: kodiak_rollout::Issuers { signer: Some("old".into()), ..issue.issuers.clone() },
        ..issue.clone()
    };
    let online = || ("a", proxy(&issue, None, ""));
    for (left, until) in [(TAKEN - 1000, TAKEN + 1800), (TAKEN - 3000, TAKEN + 600)] {
        let progress = progress(&expect, &issue, &[online(), ("stopped", proxy(&expect, Some(left), ""))]);
        let reason = WaitReason::OldTrust { until: at(until) };
        assert_eq!(waits(&progress, until - 1), [format!("stopped ({reason})")], "its expiry, or the setting");
        assert_eq!(taken(&progress, until).step, strict());
    }
    // It has the new certificate, or its Dataplane was deleted.
    for proxies in [vec![online(), ("stopped", proxy(&issue, Some(TAKEN - 1000), ""))], vec![online()]] {
        assert_eq!(taken(&progress(&expect, &issue, &proxies), TAKEN + 100).step, strict());
    }
    // Only what removes trust waits.
    let progress =
        progress(&strict(), &expect, &[("a", proxy(&expect, None, "")), ("stopped", proxy(&strict(), Some(0), ""))]);
    assert_eq!(taken(&progress, TAKEN).step, issue);
}

#[test]
fn rejected_step_is_left_when_the_target_changes() {
    let junk = TrustDomains::from([("junk".into(), vec!["no certificate".into()])]);
    let rejected = Rollout { trust_domains: junk, ..strict() };
    let proxies = [("a", proxy(&rejected, None, "")), ("b", proxy(&strict(), None, "sds: bad"))];
    let progress = progress(&strict(), &rejected, &proxies);
    let back = taken(&progress, TAKEN);
    assert!(back.step.is_same_step(&strict()), "{back:?}");
    assert_ne!(back.step.token(), strict().token(), "b acknowledged it before it was sent the rejected one");
}

#[test]
fn unreadable_record_is_neither_none_nor_the_default() {
    let both = after(&Rollout::default());
    let mut progress = progress(&Rollout::default(), &both, &[]);
    progress.unreadable.insert(ROLLOUT);
    assert_eq!(progress.step(&moment(TAKEN)), Step::Unreadable(vec![ROLLOUT]));
    assert_eq!(progress.current().unwrap().step, both);
}

#[test]
fn proxy_that_could_not_get_the_certificate_of_a_step_keeps_the_old_ca_trusted() {
    let issue = with_old_trust();
    let mut waiting = proxy(&issue, None, "");
    for (issuer, holds_up) in [("old", true), ("ca", false), ("", false)] {
        waiting.issuer = issuer.to_owned();
        let mut progress = progress(&strict(), &issue, &[("a", waiting.clone())]);
        let dataplane = Proxy {
            mesh: "default".into(),
            name: "a".into(),
            labels: Arc::new([("kuma.io/workload".to_owned(), "a".to_owned())].into()),
            dataplane: Arc::default(),
            admission: None,
        };
        progress.dataplanes.insert("a".into(), Arc::new(dataplane));
        if holds_up {
            assert_eq!(waits(&progress, TAKEN), ["a (has no certificate of the step yet, only one of old)"]);
        } else {
            assert_eq!(taken(&progress, TAKEN).step, strict());
        }
    }
}

/// Its record was written before its first connection.
#[test]
fn proxy_that_never_connected_holds_up_nothing() {
    let never = ObservedProxy::of(&serde_json::from_value(json!({})).unwrap());
    let before = with_old_trust();
    let step = |proxy: &ObservedProxy| progress(&strict(), &before, &[("a", proxy.clone())]).step(&moment(TAKEN));
    assert!(matches!(step(&never), Step::Take { .. }));
    let left = proxy(&Rollout::default(), Some(TAKEN - 1), "");
    assert!(matches!(step(&left), Step::Wait { .. }), "one that has just left does");
}

fn insight(acknowledged: &Rollout, left: Option<i64>, rejecting: &str) -> DataplaneInsight {
    let subscription = match left {
        Some(left) => json!({ "id": "1", "connectTime": "x", "disconnectTime": at(left).to_string() }),
        None => json!({ "id": "1", "connectTime": "x" }),
    };
    let expires = at(TAKEN + 1800).to_string();
    let mtls = json!({
        "acknowledged": acknowledged.token(), "rejecting": rejecting, "issuedBackend": "ca",
        "certificateExpirationTime": expires,
    });
    serde_json::from_value(json!({ "subscriptions": [subscription], "mTLS": mtls })).unwrap()
}

#[test]
fn acknowledgements_in_the_order_of_names_look_at_all_proxies_a_few_times() {
    let (off, both) = (Rollout::default(), after(&Rollout::default()));
    for size in [250, 500] {
        let name = |n: usize| format!("proxy-{n:04}");
        let names: Vec<String> = (0..size).map(name).collect();
        let proxies: Vec<(&str, ObservedProxy)> =
            names.iter().map(|name| (name.as_str(), proxy(&off, None, ""))).collect();
        let mut progress = progress(&off, &both, &proxies);
        let mut witnesses = BTreeSet::new();
        for name in &names {
            assert!(matches!(progress.step_after_change(&moment(TAKEN)), Step::Wait { .. }));
            witnesses.extend(progress.held.as_ref().map(|held| held.by.clone()));
            progress.observe(&name.as_str().into(), Some(&insight(&both, None, "")));
        }
        assert!(matches!(progress.step_after_change(&moment(TAKEN)), Step::Take { .. }));
        assert!(witnesses.len() <= 20, "{} of {size} proxies were the last one", witnesses.len());
    }
}

#[derive(Debug, Clone)]
enum Edit {
    Insight(usize, Option<(usize, Option<i64>, bool)>),
    Dataplane(usize, Option<bool>),
    Mesh(bool),
    Seconds(i64),
}

fn edit() -> impl Strategy<Value = Edit> {
    let insight = (0..4usize, prop::option::of(0..2000i64), prop::bool::weighted(0.2));
    prop_oneof![
        6 => (0..3usize, prop::option::weighted(0.9, insight)).prop_map(|(n, to)| Edit::Insight(n, to)),
        2 => (0..3usize, prop::option::weighted(0.8, any::<bool>())).prop_map(|(n, to)| Edit::Dataplane(n, to)),
        1 => any::<bool>().prop_map(Edit::Mesh),
        1 => prop::sample::select(&[1, 40, 5000][..]).prop_map(Edit::Seconds),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The answer after a change has one of the reasons to wait, and is the same otherwise.
    #[test]
    fn step_after_any_changes_is_the_one_from_scratch(edits in prop::collection::vec(edit(), 1..40), first in 0..4usize) {
        let off = Rollout::default();
        let both = after(&off);
        let steps = [off.clone(), both.clone(), after(&both), with_old_trust()];
        let mut progress = progress(&steps[first], &steps[(first + 1) % 4], &[]);
        let mut now = TAKEN;
        for edit in edits {
            match edit {
                Edit::Insight(n, to) => {
                    let to = to.map(|(at, left, rejecting)| {
                        let error = if rejecting { "lds: bad" } else { "" };
                        insight(&steps[at], left.map(|left| TAKEN - 1000 + left), error)
                    });
                    progress.observe(&format!("p-{n}").into(), to.as_ref());
                }
                Edit::Dataplane(n, to) => {
                    let dataplane = to.map(|tagged| {
                        let tags = if tagged { json!({ "kuma.io/service": "a" }) } else { json!({}) };
                        let inbound = json!({ "networking": { "inbound": [{ "port": 80, "tags": tags }] } });
                        Arc::new(Proxy {
                            mesh: "default".into(),
                            name: format!("p-{n}").into(),
                            labels: Arc::default(),
                            dataplane: serde_json::from_value(inbound).map(Arc::new).unwrap(),
                            admission: None,
                        })
                    });
                    progress.set_dataplane(&format!("p-{n}").into(), dataplane);
                }
                Edit::Mesh(permissive) => {
                    let mut spec = serde_json::to_value(&*mesh()).unwrap();
                    spec["mtls"]["backends"][0]["mode"] = json!(if permissive { "PERMISSIVE" } else { "STRICT" });
                    progress.mesh = Some(serde_json::from_value(spec).map(Arc::new).unwrap());
                }
                Edit::Seconds(seconds) => now += seconds,
            }
            let scratch = progress.step(&moment(now));
            match (progress.step_after_change(&moment(now)), scratch) {
                (Step::Wait { proxies, .. }, Step::Wait { proxies: all, .. }) => {
                    let holds_up = |one: &Waiting| all.iter().any(|other| other.proxy == one.proxy);
                    prop_assert!(!proxies.is_empty() && proxies.iter().all(holds_up), "{:?} of {:?}", proxies, all);
                }
                (Step::Take { phase, next }, scratch) => {
                    prop_assert_eq!(&Step::Take { phase, next: next.clone() }, &scratch);
                    progress.current = Some(*next);
                    progress.held = None;
                }
                (one, other) => prop_assert_eq!(one, other),
            }
        }
    }
}
