//! Properties of the order between resources, for every order of answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::envoy::{Client, Envoy, GIVES, expected};
use super::model::POISON;
use super::{CDS, EDS, LDS, SDS, referring, resource};
use crate::resource::{Need, Snapshot};
use crate::type_url::TypeUrl;
use crate::{delta, sotw};

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];
const LISTENERS: [&str; 3] = ["i", "l", "m"];

/// Content of a snapshot: clusters with versions of their own, of their endpoints and of their secret, versions of secrets,
/// and listeners with a version and the clusters that they use, as far as these exist.
#[derive(Debug, Clone)]
struct Content {
    clusters: BTreeMap<&'static str, (u128, u128, &'static str)>,
    secrets: [u128; 2],
    listeners: BTreeMap<&'static str, (u128, Vec<&'static str>)>,
}

impl Content {
    /// Complete: nothing in it refers to what is not in it.
    fn snapshot(&self) -> Arc<Snapshot> {
        let mut snapshot = Snapshot::default();
        for (name, version) in ["s", "t"].into_iter().zip(self.secrets) {
            snapshot.resources.insert(SDS, resource(name, version));
        }
        for (name, (version, endpoints, secret)) in &self.clusters {
            let needs: Box<[Need]> = Box::new([(EDS, (*name).into()), (SDS, (*secret).into())]);
            let version = if *version == POISON.0 { *version } else { 10 * version + u128::from(*secret == "t") };
            snapshot.resources.insert(CDS, referring(name, version, needs));
            snapshot.resources.insert(EDS, resource(name, 10 + endpoints));
        }
        for (name, (version, clusters)) in &self.listeners {
            let known: Vec<_> = clusters.iter().filter(|name| self.clusters.contains_key(*name)).collect();
            let needs = known.iter().map(|name| (CDS, Arc::from(**name))).collect();
            // Listeners that use other clusters are other versions.
            let uses = CLUSTERS.iter().fold(0, |bits, name| 2 * bits + u128::from(known.contains(&name)));
            snapshot.resources.insert(LDS, referring(name, 100 * version + uses, needs));
        }
        Arc::new(snapshot)
    }
}

/// With clusters up to this version; 3 is rejected.
fn contents(most: u128) -> impl Strategy<Value = Content> {
    let clusters = btree_map(select(&CLUSTERS), (1..=most, 0..3_u128, select(&["s", "t"])), 0..=4);
    let listeners = btree_map(select(&LISTENERS), (1..3_u128, subsequence(CLUSTERS.to_vec(), 0..=2)), 0..=3);
    (clusters, [10..12_u128, 10..12], listeners).prop_map(|(clusters, secrets, listeners)| Content {
        clusters,
        secrets,
        listeners,
    })
}

#[derive(Debug, Clone)]
enum Op {
    Change(Content),
    Read,
    Answer(TypeUrl),
    Wait(u64),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => contents(3).prop_map(Op::Change),
        6 => Just(Op::Read),
        6 => select(&[CDS, EDS, LDS, SDS]).prop_map(Op::Answer),
        1 => (1..50_u64).prop_map(Op::Wait),
    ];
    vec(op, 0..60)
}

/// The model asserts the order in every step.
fn follows_order<S: Client>(first: &Content, ops: &[Op], last: &Content) {
    let mut envoy = Envoy::<S>::with(first.snapshot());
    for op in ops {
        match op {
            Op::Change(content) => envoy.snapshot(content.snapshot()),
            Op::Read => drop(envoy.read()),
            Op::Answer(type_url) => drop(envoy.answer(*type_url)),
            Op::Wait(time) => envoy.wait(*time),
        }
    }
    let last = last.snapshot();
    envoy.snapshot(last.clone());
    envoy.settle();
    assert!(envoy.is_settled());
    envoy.wait(GIVES);
    envoy.settle();
    for type_url in [CDS, EDS, LDS] {
        assert_eq!(envoy.versions(type_url), expected(last.of(type_url)), "{type_url}");
    }
}

/// One listener changes with every unit of time, and its client answers late. A cluster that nothing uses goes in time.
fn removes_unused<S: Client>(lag: u64) {
    let content = |version: u128, clusters: &[&'static str]| Content {
        clusters: clusters.iter().map(|name| (*name, (1, 1, "s"))).collect(),
        secrets: [10, 10],
        listeners: [("i", (1 + version, vec!["a"])), ("l", (1, vec![clusters[clusters.len() - 1]]))].into(),
    };
    let mut envoy = Envoy::<S>::with(content(0, &["a", "b"]).snapshot());
    for second in 1..=GIVES + 2 * lag + 2 {
        envoy.snapshot(content(second.into(), &["a"]).snapshot());
        while envoy.read() {}
        if second % (lag + 1) == 0 {
            for type_url in TypeUrl::ALL {
                while envoy.answer(type_url) {}
            }
        }
        envoy.wait(1);
    }
    envoy.read();
    assert!(!envoy.holds(CDS, "b"), "b is still there");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn resources_wait_for_what_they_refer_to_and_for_nothing_else(
        first in contents(2), ops in ops(), last in contents(2)
    ) {
        follows_order::<delta::Subscription>(&first, &ops, &last);
        follows_order::<sotw::Subscription>(&first, &ops, &last);
    }
}

#[test]
fn unused_cluster_is_removed_though_listeners_never_rest() {
    for lag in 0..4 {
        removes_unused::<delta::Subscription>(lag);
        removes_unused::<sotw::Subscription>(lag);
    }
}
