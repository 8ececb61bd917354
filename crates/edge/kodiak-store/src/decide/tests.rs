//! Random transactions, decided here and by a simple model.

mod model;
mod strategy;

use std::collections::BTreeMap;

use jiff::Timestamp;
use kodiak_model::ResourceKey;
use proptest::prelude::*;

use self::{model::Model, strategy::transactions};
use super::decide;
use crate::{
    engine::fake::Rows,
    error::StoreError,
    event::{Batch, Changes, Event, Head},
    history::{Position, Published},
    id::Id,
    record::{Expect, Record, Transaction, Write},
    state::State,
};

fn time(second: usize) -> Timestamp {
    Timestamp::from_second(i64::try_from(second).unwrap()).unwrap()
}

proptest! {
    #[test]
    fn decisions_match_the_model(transactions in transactions()) {
        let mut state = State::default();
        let mut model = Model::default();
        for (second, transaction) in transactions.into_iter().enumerate() {
            let before = state.revision();
            let expected = model.clone().transaction(&transaction, time(second));
            match (decide(&state, transaction, time(second)), expected) {
                (Ok(decision), Ok((next, records))) => {
                    let revisions: Vec<_> = decision.events.iter().map(Event::revision).collect();
                    let expected: Vec<_> = (before + 1..=decision.state.revision()).collect();
                    prop_assert_eq!(revisions, expected, "each change has the next revision");
                    prop_assert_eq!(decision.records, records);
                    (state, model) = (decision.state, next);
                }
                (Err(error), Err(expected)) => prop_assert_eq!(error.to_string(), expected.to_string()),
                (decided, expected) => prop_assert!(false, "{:?} but the model says {:?}", decided, expected),
            }
            model.check(&state);
        }
    }

    /// Also when it was deleted and created again, so that a version names one content of one record for ever.
    #[test]
    fn versions_of_a_key_never_come_back(transactions in transactions()) {
        let mut state = State::default();
        let (mut specs, mut statuses) = (BTreeMap::new(), BTreeMap::new());
        for transaction in transactions {
            let Ok(decision) = decide(&state, transaction, time(0)) else { continue };
            for event in decision.events {
                let Event::Put(record) = event else { continue };
                let Record { key, spec, labels, owner, created: _, status, version, status_version, .. } = Record::clone(&record);
                let content = (spec, labels, owner);
                prop_assert_eq!(specs.entry((key.clone(), version)).or_insert(content.clone()), &content);
                if status.is_some() {
                    prop_assert_eq!(statuses.entry((key, status_version)).or_insert(status.clone()), &status);
                }
            }
            state = decision.state;
        }
    }

    /// Every reader, at any pace and from any revision, ends with the current state.
    #[test]
    fn every_watch_rebuilds_the_snapshot(
        transactions in transactions(),
        log_capacity in 0..20_usize,
        tombstone_capacity in 0..10_usize,
        reads in prop::collection::vec(0..6_usize, 1..80),
    ) {
        let mut published = Published::new(log_capacity);
        let mut replicas = Vec::new();
        let mut reads = reads.into_iter().cycle();
        for (second, transaction) in transactions.into_iter().enumerate() {
            if second % 4 == 0 {
                replicas.push(Replica::new(&published));
            }
            if let Ok(decision) = decide(&published.state, transaction, time(second)) {
                let mut state = decision.state;
                state.trim(tombstone_capacity);
                published = published.with_events(state, decision.events);
            }
            for replica in &mut replicas {
                for _ in 0..reads.next().unwrap() {
                    replica.read(&published);
                }
            }
        }
        let there: BTreeMap<_, _> = records(&published.state).map(|record| (record.key.clone(), record.clone())).collect();
        let mut late = Replica::new(&published);
        for replica in replicas.iter_mut().chain([&mut late]) {
            while replica.read(&published) {}
            prop_assert_eq!(&replica.records, &there);
        }
        prop_assert_eq!(late.expirations, 0, "from 0 there is always a way");
    }

    /// As after a failover that loses commits: the back end continues from an earlier point, and others write there.
    /// Every watch, at any pace, ends with the content of the back end.
    #[test]
    fn watches_cross_to_another_history(
        histories in (transactions(), transactions(), transactions()),
        log_capacity in 0..20_usize,
        reads in prop::collection::vec(0..6_usize, 1..80),
    ) {
        let (shared, lost, other) = histories;
        let mut reads = reads.into_iter().cycle();
        let mut published = Published::new(log_capacity);
        let mut behind = vec![Replica::new(&published)];
        for transaction in shared {
            published = commit(&published, transaction);
            for replica in &mut behind {
                for _ in 0..reads.next().unwrap() {
                    replica.read_any(&published);
                }
            }
        }
        let mut elsewhere = published.clone();
        for transaction in lost {
            published = commit(&published, transaction);
            behind.push(Replica::new(&published));
            for replica in &mut behind {
                for _ in 0..reads.next().unwrap() {
                    replica.read_any(&published);
                }
            }
        }
        for transaction in other {
            elsewhere = commit(&elsewhere, transaction);
        }
        let events = {
            let mut all = elsewhere.position(0).unwrap();
            std::iter::from_fn(|| {
                let (event, next) = elsewhere.next(all).unwrap()?;
                all = next;
                Some(event)
            }).collect()
        };
        let before = published.clone();
        let changes = Changes { events, head: elsewhere.state.head(), complete: true };
        published = published.with_changes(changes);
        prop_assert!(records(&published.state).eq(records(&elsewhere.state)));
        let expected = before.state.difference(&published.state).len();
        prop_assert_eq!(published.forked_from(&before), Some(expected));
        let there: BTreeMap<_, _> = records(&published.state).map(|record| (record.key.clone(), record.clone())).collect();
        behind.push(Replica::new(&published));
        for replica in &mut behind {
            while replica.read_any(&published) {}
            prop_assert_eq!(&replica.records, &there);
            prop_assert_eq!(replica.expirations, 0, "nobody has to list again");
        }
    }

    /// A store that opens the back end, or that fell behind, finds the persisted state.
    #[test]
    fn persisted_content_is_the_state(transactions in transactions(), group in 1..9_usize, tombstone_capacity in 0..10_usize) {
        let mut published = Published::new(5);
        let mut behind = Published::new(5);
        let mut rows = Rows::default();
        for (second, gathered) in transactions.chunks(group).enumerate() {
            let mut state = State::clone(&published.state);
            let mut events = Vec::new();
            for transaction in gathered {
                if let Ok(decision) = decide(&state, transaction.clone(), time(second)) {
                    state = decision.state;
                    events.extend(decision.events);
                }
            }
            state.trim(tombstone_capacity);
            rows.persist(&Batch::new(&events, state.head()));
            published = published.with_events(state, events);

            let opened = Published::new(5).with_changes(rows.changes(Head::default()));
            prop_assert_eq!(&*opened.state, &*published.state);
            if second % 3 == 0 {
                behind = behind.with_changes(rows.changes(behind.state.head()));
                prop_assert_eq!(&*behind.state, &*published.state);
            }
        }
    }
}

/// A reader that follows the store, and lists again on `Expired`.
struct Replica {
    records: BTreeMap<ResourceKey, Record>,
    position: Position,
    expirations: usize,
}

fn commit(published: &Published, transaction: Transaction) -> Published {
    match decide(&published.state, transaction, time(0)) {
        Ok(decision) => {
            let mut state = decision.state;
            state.stamp(Id::random());
            published.with_events(state, decision.events)
        }
        Err(_) => published.clone(),
    }
}

impl Replica {
    /// Like `read`, also where revisions decrease.
    fn read_any(&mut self, published: &Published) -> bool {
        match published.next(self.position) {
            Ok(Some((event, position))) => {
                self.position = position;
                self.take(event);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.expirations += 1;
                false
            }
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Put(record) => drop(self.records.insert(record.key.clone(), Record::clone(&record))),
            Event::Deleted { key, .. } => drop(self.records.remove(&key)),
        }
    }

    fn new(published: &Published) -> Self {
        Self { records: BTreeMap::new(), position: published.position(0).unwrap(), expirations: 0 }
    }

    /// Reads one change, and returns whether there was one.
    fn read(&mut self, published: &Published) -> bool {
        match published.next(self.position) {
            Ok(Some((event, position))) => {
                assert!(position.seen == event.revision() && position.seen > self.position.seen, "revisions only grow");
                self.position = position;
                self.take(event);
                true
            }
            Ok(None) => false,
            Err(StoreError::Expired { oldest, .. }) => {
                assert!(self.position.seen < oldest);
                self.records = records(&published.state).map(|record| (record.key.clone(), record.clone())).collect();
                self.position = published.position(published.state.revision()).unwrap();
                self.expirations += 1;
                true
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn records(state: &State) -> impl Iterator<Item = &Record> {
    state.records_from(ResourceKey::global("", ""))
}

#[test]
fn circular_owners_are_deleted_together() {
    let put = |name: &str, owner: Option<&str>| Write::Put {
        key: ResourceKey::global("Mesh", name),
        spec: "{}".into(),
        labels: BTreeMap::new(),
        owner: owner.map(|owner| ResourceKey::global("Mesh", owner)),
        expect: Expect::Any,
    };
    let circle = Transaction(vec![put("a", None), put("b", Some("a")), put("c", Some("b")), put("a", Some("c"))]);
    let state = decide(&State::default(), circle, time(0)).unwrap().state;
    let delete = Write::Delete { key: ResourceKey::global("Mesh", "b"), expect: Expect::Any };
    assert_eq!(decide(&state, delete.into(), time(1)).unwrap().state.len(), 0);
}

#[test]
fn rejects_values_that_no_back_end_supports() {
    let check = |kind: &str, name: &str, spec: &str| {
        let put = Write::Put {
            key: ResourceKey::global(kind, name),
            spec: spec.into(),
            labels: BTreeMap::new(),
            owner: None,
            expect: Expect::Any,
        };
        assert!(matches!(decide(&State::default(), put.into(), time(0)), Err(StoreError::Invalid { .. })));
    };
    check("", "a", "{}");
    check("Mesh", "", "{}");
    check("Mesh", &"a".repeat(600), "{}");
    check("Mesh", "a\0b", "{}");
    check("Mesh", "a", "\0");
    check("Mesh", "a", &"x".repeat(5 << 20));
}

#[test]
fn store_behind_the_history_reloads() {
    let put = Write::Put {
        key: ResourceKey::global("Mesh", "a"),
        spec: "{}".into(),
        labels: BTreeMap::new(),
        owner: None,
        expect: Expect::Any,
    };
    let decision = decide(&State::default(), put.into(), time(0)).unwrap();
    let published = Published::new(9).with_events(decision.state, decision.events);
    // The database was replaced by an empty one.
    let changes = Changes { events: Vec::new(), head: State::default().head(), complete: true };
    let published = published.with_changes(changes);
    assert_eq!(published.state.len(), 0);
    assert!(matches!(published.position(1), Err(StoreError::Expired { after: 1, .. })));
}
