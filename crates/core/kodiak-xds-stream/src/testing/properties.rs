//! Properties of every sequence of events.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::model::{Op, delta, sotw};
use super::resource;
use crate::message::{Nonce, Response};
use crate::resource::{Snapshot, Version};
use crate::stream::{Event, Stream};
use crate::type_url::{Requested, TypeUrl};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// With versions up to `most`; 3 is rejected.
fn snapshots(most: u128) -> impl Strategy<Value = Arc<Snapshot>> {
    vec((select(&TypeUrl::ALL), select(&NAMES), 1..=most), 0..14).prop_map(|resources| {
        let mut snapshot = Snapshot::default();
        for (type_url, name, version) in resources {
            snapshot.resources.insert(type_url, resource(name, version));
        }
        Arc::new(snapshot)
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let names = select(&["a", "b", "c", "d", "*"]);
    let op = prop_oneof![
        3 => snapshots(3).prop_map(Op::Snapshot),
        8 => Just(Op::Step),
        4 => (select(&TypeUrl::ALL), names.clone()).prop_map(|(type_url, name)| Op::Subscribe(type_url, name)),
        2 => (select(&TypeUrl::ALL), names).prop_map(|(type_url, name)| Op::Unsubscribe(type_url, name)),
        1 => Just(Op::Reconnect),
    ];
    vec(op, 0..40)
}

/// Both clients after these operations and a last valid snapshot, with everything read.
fn run(ops: &[Op], last: &Arc<Snapshot>) -> (delta::Client, sotw::Client) {
    let (mut delta, mut sotw) = (delta::Client::default(), sotw::Client::default());
    for op in ops.iter().chain([&Op::Snapshot(last.clone())]) {
        delta.apply(op);
        sotw.apply(op);
    }
    delta.drain();
    sotw.drain();
    (delta, sotw)
}

/// Contains only repeated notices that a name does not exist.
fn is_redundant(response: &Response, snapshot: &Snapshot) -> bool {
    let Requested::Served(type_url) = response.type_url else { return false };
    response.resources.is_empty() && response.removed.iter().all(|name| !snapshot.of(type_url).contains_key(name))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// The clients also assert that every subscribe is answered and nothing is sent twice.
    #[test]
    fn delta_equals_state_of_the_world(ops in ops(), last in snapshots(2)) {
        let (delta, sotw) = run(&ops, &last);
        for type_url in TypeUrl::ALL {
            let expected = delta.interest[type_url.index()].of(last.of(type_url));
            let exists = |name: &Arc<str>, _: &mut Version| last.of(type_url).contains_key(name);
            let mut holds = delta.holds[type_url.index()].clone();
            if type_url.removed_last() && !delta.stream.is_subscribed(TypeUrl::Listener) {
                // Listeners of an earlier stream, which the client has not reported, may refer to them.
                holds.retain(exists);
            }
            prop_assert_eq!(&holds, &expected, "delta {}", type_url);
            let mut holds = sotw.holds[type_url.index()].clone();
            if !type_url.is_whole() {
                // This protocol cannot remove them.
                holds.retain(exists);
            }
            prop_assert_eq!(&holds, &expected, "state of the world {}", type_url);
        }
        prop_assert!(delta.stream.is_settled() && sotw.stream.is_settled());
    }

    #[test]
    fn after_a_reconnect_with_unchanged_state_nothing_is_sent(ops in ops(), last in snapshots(2)) {
        let (mut delta, mut sotw) = run(&ops, &last);
        for response in delta.reconnect() {
            prop_assert!(is_redundant(&response, &last), "{response:?}");
        }
        for response in sotw.reconnect() {
            // Names are sent again in this protocol, see `sotw::Subscription::has_all`.
            let full = |each: &TypeUrl| each.is_whole() && sotw.interest[each.index()].wildcard;
            let full = TypeUrl::ALL.into_iter().filter(full).any(|each| response.type_url == Requested::Served(each));
            prop_assert!(!full || response.resources.is_empty(), "{response:?}");
        }
    }

    #[test]
    fn arbitrary_requests_never_panic_and_names_are_always_answered(
        events in vec((0..8_u8, select(&TypeUrl::ALL), vec(select(&["a", "b", "*", ""]), 0..3), 0..20_u64, any::<bool>()), 0..40),
        snapshot in snapshots(3),
    ) {
        let mut delta = Stream::<crate::delta::Subscription>::default();
        let mut sotw = Stream::<crate::sotw::Subscription>::default();
        let mut known = false;
        for (what, type_url, names, number, rejects) in events {
            if what == 0 {
                known = true;
                delta.on(Event::Snapshot(snapshot.clone()));
                sotw.on(Event::Snapshot(snapshot.clone()));
                continue;
            }
            let of_type = if what == 1 { Requested::Unknown("x".into()) } else { Requested::Served(type_url) };
            let names: Vec<Arc<str>> = names.into_iter().map(Arc::from).collect();
            let nonce = (number > 5).then_some(Nonce(number));
            let error = rejects.then(|| Arc::from("no"));
            let version = Some(Version(number.into()));
            let initial = if what == 2 { vec![("a".into(), version), ("z".into(), None)] } else { vec![] };
            let unsubscribe = if what == 3 { names.clone() } else { vec![] };
            let subscribe = if what == 3 { vec![] } else { names.clone() };
            let asks = what > 3 && (known || what == 1);
            let request = crate::delta::Request { subscribe, unsubscribe, initial, nonce, error: error.clone() };
            let responses = delta.on(Event::Request(of_type.clone(), request));
            for name in names.iter().filter(|name| asks && ***name != *"*") {
                let names_it = |each: &Response| each.removed.contains(name) || each.resources.iter().any(|one| one.name == *name);
                prop_assert!(responses.iter().any(names_it), "{name} is answered");
            }
            let request = crate::sotw::Request { names, version: version.filter(|_| rejects), nonce, error };
            let responses = sotw.on(Event::Request(of_type, request));
            prop_assert!(nonce.is_some() || rejects || !known || !responses.is_empty(), "a first request is answered");
        }
    }
}
