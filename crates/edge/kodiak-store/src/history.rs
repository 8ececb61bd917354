//! The published state, and how a watch reads it.
//!
//! The log holds every recent change. For older revisions the state itself has the last change of every key, as records
//! and tombstones; intermediate changes are merged. Both are immutable, so a watcher takes no lock, needs no buffer of
//! its own, and cannot block others.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{
    error::StoreError,
    event::{Changes, Event},
    state::State,
};

/// The state that readers see. Replaced as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) state: Arc<State>,
    log: Log,
    /// Number of histories that this store has gone through. A revision is only meaningful within one of them.
    epoch: u64,
    fork: Option<Arc<Fork>>,
}

/// Switch from one history to another: a watch of the first reads it to its end, then the difference, and continues in
/// the second.
#[derive(Debug)]
struct Fork {
    before: Published,
    difference: Vec<Event>,
    /// Of the second history, with the difference applied.
    revision: u64,
}

/// The most recent changes, up to a maximum number.
#[derive(Debug, Clone)]
struct Log {
    events: OrdMap<u64, Event>,
    /// All changes after this revision are in `events`.
    start: u64,
    capacity: usize,
}

/// Position of a watch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// Revision of the last change that it returned.
    pub(crate) seen: u64,
    /// Deletions up to this revision are skipped. It is beyond `seen` for a watch that started empty and is still
    /// reading the initial state: it cannot have seen records that were deleted before.
    settled: u64,
    /// The history of both revisions.
    epoch: u64,
    /// How much of the difference to the next history was returned.
    crossed: usize,
}

impl Published {
    /// Empty.
    pub(crate) fn new(log_capacity: usize) -> Self {
        let log = Log { events: OrdMap::new(), start: 0, capacity: log_capacity };
        Self { state: Arc::default(), log, epoch: 0, fork: None }
    }

    /// The whole content of a back end, before the first watch.
    pub(crate) fn open(log_capacity: usize, changes: &Changes) -> Self {
        let mut state = State::default();
        state.apply_changes(changes);
        let log = Log { events: OrdMap::new(), start: state.revision(), capacity: log_capacity };
        Self { state: Arc::new(state), log, epoch: 0, fork: None }
    }

    /// Adds changes that were found in the back end.
    pub(crate) fn with_changes(&self, mut changes: Changes) -> Self {
        if changes.complete {
            return self.replaced(&mut changes);
        }
        let mut state = State::clone(&self.state);
        state.apply_changes(&changes);
        self.with_events(state, changes.events)
    }

    /// Replaces everything, and gives watches the difference. Equal records stay those in memory.
    fn replaced(&self, changes: &mut Changes) -> Self {
        for event in &mut changes.events {
            if let Event::Put(record) = event
                && let Some(known) = self.state.get(&record.key)
                && known == record
            {
                *record = known.clone();
            }
        }
        let mut state = State::default();
        state.apply_changes(changes);
        let difference = self.state.difference(&state);
        let revision = state.revision();
        // One previous history is enough: a watch that is still in an earlier one must list again.
        let fork = Fork { before: Self { fork: None, ..self.clone() }, difference, revision };
        let log = Log { events: OrdMap::new(), start: revision, capacity: self.log.capacity };
        Self { state: Arc::new(state), log, epoch: self.epoch + 1, fork: Some(Arc::new(fork)) }
    }

    /// Advances to `state`, by these events.
    pub(crate) fn with_events(&self, state: State, events: Vec<Event>) -> Self {
        let mut log = self.log.clone();
        log.append(events);
        // As long as for every other lagging watch.
        let fork = self.fork.clone().filter(|fork| log.start <= fork.revision);
        Self { state: Arc::new(state), log, epoch: self.epoch, fork }
    }

    /// Number of changes in the switch to this history, if `before` is of the previous one.
    pub(crate) fn forked_from(&self, before: &Self) -> Option<usize> {
        let fork = self.fork.as_ref().filter(|_| self.epoch != before.epoch)?;
        Some(fork.difference.len())
    }

    /// Position of a watch that has seen everything up to a revision, or nothing if that is 0.
    pub(crate) fn position(&self, after: u64) -> Result<Position, StoreError> {
        let begins_with_state = after == 0 && self.log.start > 0;
        let settled = if begins_with_state { self.state.revision() } else { after };
        let position = Position { seen: after, settled, epoch: self.epoch, crossed: 0 };
        self.next(position)?;
        Ok(position)
    }

    /// The next change for a watch, and its new position; `None` when there is none yet.
    pub(crate) fn next(&self, position: Position) -> Result<Option<(Event, Position)>, StoreError> {
        if position.epoch != self.epoch {
            return self.cross(position);
        }
        let Position { seen, settled, .. } = position;
        let head = self.state.head();
        if seen <= head.revision && seen >= self.log.start {
            let next = self.log.events.range(seen + 1..).next();
            Ok(next.map(|(revision, event)| (event.clone(), self.at(*revision, *revision))))
        } else if head.continues(settled) {
            let next = self.state.first_after(seen, settled);
            Ok(next.map(|event| {
                let seen = event.revision();
                (event, self.at(seen, settled.max(seen)))
            }))
        } else {
            // A tombstone that the watch needs may have been dropped.
            Err(self.expired(seen))
        }
    }

    fn cross(&self, position: Position) -> Result<Option<(Event, Position)>, StoreError> {
        let fork = self.fork.as_ref().filter(|fork| fork.before.epoch == position.epoch);
        let Some(fork) = fork else { return Err(self.expired(position.seen)) };
        if position.crossed == 0
            && let Some(next) = fork.before.next(position)?
        {
            return Ok(Some(next));
        }
        let arrived = self.at(fork.revision, fork.revision);
        let Some(event) = fork.difference.get(position.crossed) else { return self.next(arrived) };
        let crossed = position.crossed + 1;
        let next = if crossed == fork.difference.len() { arrived } else { Position { crossed, ..position } };
        Ok(Some((event.clone(), next)))
    }

    fn at(&self, seen: u64, settled: u64) -> Position {
        Position { seen, settled, epoch: self.epoch, crossed: 0 }
    }

    fn expired(&self, seen: u64) -> StoreError {
        StoreError::Expired { after: seen, oldest: self.log.start.min(self.state.head().floor) }
    }
}

impl Log {
    fn append(&mut self, events: Vec<Event>) {
        for event in events {
            self.events.insert(event.revision(), event);
        }
        while self.events.len() > self.capacity
            && let Some((oldest, _)) = self.events.get_min().cloned()
        {
            self.events.remove(&oldest);
            self.start = oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use kodiak_model::ResourceKey;

    use super::*;
    use crate::{
        decide::decide,
        record::{Expect, Write},
    };

    /// `name` puts, `-name` deletes.
    fn write(published: &mut Published, names: &[&str]) {
        for name in names {
            let key = |name| ResourceKey::global("Mesh", name);
            let write = match name.strip_prefix('-') {
                Some(name) => Write::Delete { key: key(name), expect: Expect::Any },
                None => Write::Put {
                    key: key(name),
                    spec: "{}".into(),
                    labels: BTreeMap::new(),
                    owner: None,
                    expect: Expect::Absent,
                },
            };
            let decision = decide(&published.state, write.into(), Timestamp::UNIX_EPOCH).unwrap();
            *published = published.with_events(decision.state, decision.events);
        }
    }

    fn read(published: &Published, position: &mut Position, count: usize) -> Vec<String> {
        let mut next = || {
            let (event, next) = published.next(*position).unwrap()?;
            *position = next;
            let sign = if matches!(event, Event::Deleted { .. }) { "-" } else { "" };
            Some(format!("{sign}{}", event.to_change().key.name))
        };
        std::iter::from_fn(&mut next).take(count).collect()
    }

    /// The watch starts with the state, for which the deletion of `k` is skipped; then it reads a put of `k` from the
    /// log; then it falls off the log, and now needs the deletion.
    #[test]
    fn watch_gets_the_deletion_of_a_key_that_it_saw() {
        let mut published = Published::new(4);
        write(&mut published, &["a", "b", "c", "k", "-k"]);
        let mut position = published.position(0).unwrap();
        assert_eq!(read(&published, &mut position, 4), ["a", "b", "c", "k"]);
        write(&mut published, &["d", "e", "f", "g"]);
        assert_eq!(read(&published, &mut position, 9), ["-k", "d", "e", "f", "g"]);
    }

    #[test]
    fn watch_from_zero_skips_earlier_deletions() {
        let mut published = Published::new(1);
        write(&mut published, &["a", "k", "-k", "b"]);
        let mut position = published.position(0).unwrap();
        assert_eq!(read(&published, &mut position, 9), ["a", "b"]);
        write(&mut published, &["-a"]);
        assert_eq!(read(&published, &mut position, 9), ["-a"]);
    }
}
