//! Property: in every order of edits, acknowledgements, interrupted streams and restarts, with two control planes, a client
//! loses no destination that its servers still admit it to, and gets none before they do, but after the longest wait.

mod envoy;
mod model;

use kodiak_reachability::Mode;
use proptest::{
    prelude::*,
    test_runner::{RngAlgorithm, RngSeed},
};
use serde_json::json;

use self::model::{CLIENTS, Edit, Model, PROXIES, SERVERS};

/// One event of a history.
#[derive(Debug, Clone)]
enum Event {
    /// One after the other, or at once for the control planes with `true`.
    Edits(Vec<Edit>, [bool; 2]),
    /// A proxy applies the next snapshot that it was sent.
    Deliver(&'static str),
    /// The insight of a proxy shows what it applied.
    Acknowledge(&'static str),
    /// All proxies that reject nothing do both, with all that they were sent.
    Settle,
    /// From now on, a proxy rejects what it is sent, or not any more.
    Reject(&'static str, bool),
    /// The stream of a proxy ends.
    Disconnect(&'static str),
    /// A proxy connects to a control plane.
    Connect(&'static str, usize),
    Restart(usize),
    Seconds(u8),
}

fn a_permission() -> impl Strategy<Value = String> {
    let top = prop_oneof![
        Just(json!({ "kind": "Mesh" })),
        prop::sample::select(&["x", "y"][..]).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
        Just(json!({ "kind": "MeshSubset", "tags": { "version": "2" } })),
    ];
    let from = prop_oneof![
        1 => Just(json!({ "kind": "Mesh" })),
        4 => prop::sample::select(&["a", "b"][..]).prop_map(|name| json!({ "kind": "MeshService", "name": name })),
    ];
    let action = prop::sample::select(&["Allow", "Allow", "Deny"][..]);
    let item = (from, action).prop_map(|(from, action)| json!({ "targetRef": from, "default": { "action": action } }));
    (top, prop::collection::vec(item, 1..3))
        .prop_map(|(top, from)| json!({ "targetRef": top, "from": from }).to_string())
}

fn an_edit() -> impl Strategy<Value = Edit> {
    let permission = prop::sample::select(&["p", "q", "r"][..]);
    prop_oneof![
        6 => (permission, prop::option::weighted(0.8, a_permission()))
            .prop_map(|(name, spec)| Edit::Permission(name, spec)),
        2 => (prop::sample::select(&SERVERS[..]), prop::sample::select(&["x", "y"][..]), 1..3u8)
            .prop_map(|(name, service, version)| Edit::Server { name, service, version }),
        1 => (prop::sample::select(&CLIENTS[..]), prop::sample::select(&["a", "b"][..]))
            .prop_map(|(name, service)| Edit::Client { name, service }),
        1 => prop::sample::select(&[Mode::Off, Mode::On][..]).prop_map(Edit::Mode),
    ]
}

fn an_event() -> impl Strategy<Value = Event> {
    let proxy = || prop::sample::select(&PROXIES[..]);
    prop_oneof![
        6 => (prop::collection::vec(an_edit(), 1..3), any::<[bool; 2]>()).prop_map(|(edits, at_once)| Event::Edits(edits, at_once)),
        6 => proxy().prop_map(Event::Deliver),
        6 => proxy().prop_map(Event::Acknowledge),
        4 => Just(Event::Settle),
        2 => (proxy(), any::<bool>()).prop_map(|(name, rejects)| Event::Reject(name, rejects)),
        2 => proxy().prop_map(Event::Disconnect),
        4 => (proxy(), 0..2usize).prop_map(|(name, to)| Event::Connect(name, to)),
        1 => (0..2usize).prop_map(Event::Restart),
        3 => (1..15u8).prop_map(Event::Seconds),
    ]
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 64,
        failure_persistence: None,
        rng_algorithm: RngAlgorithm::ChaCha,
        rng_seed: RngSeed::Fixed(24),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn clients_follow_their_servers_in_every_order(events in prop::collection::vec(an_event(), 1..40)) {
        let mut model = Model::new();
        for event in events {
            match event {
                Event::Edits(edits, at_once) => model.edit(&edits, at_once),
                Event::Deliver(name) => model.deliver(name),
                Event::Acknowledge(name) => model.acknowledge(name),
                Event::Settle => model.settle(),
                Event::Reject(name, rejects) => model.reject(name, rejects),
                Event::Disconnect(name) => model.disconnect(name),
                Event::Connect(name, to) => model.connect(name, to),
                Event::Restart(which) => model.restart(which),
                Event::Seconds(seconds) => model.pass(seconds),
            }
            prop_assert!(model.violations().is_empty(), "{}", model.violations().join("; "));
        }
    }
}
