//! What is published, and how a watch reads it.
//!
//! The log holds every change of the recent past. Before it reaches back, the state itself still tells the last change
//! of every key, as records and tombstones; what happened in between is merged. Both are immutable, so a watcher takes
//! no lock, needs no buffer of its own, and cannot hold anybody up.

use std::sync::Arc;

use imbl::OrdMap;

use crate::{
    error::StoreError,
    event::{Changes, Event},
    state::State,
};

/// What readers see. Replaced as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) state: Arc<State>,
    log: Log,
    /// Counts the histories that this store has been through. A revision means something only within one of them.
    epoch: u64,
    fork: Option<Arc<Fork>>,
}

/// Where one history was left for another: a watch of the first reads it to its end, then the difference, and goes on
/// in the second.
#[derive(Debug)]
struct Fork {
    before: Published,
    difference: Vec<Event>,
    /// Of the second history, with the difference applied.
    revision: u64,
}

/// The last changes, up to a number of them.
#[derive(Debug, Clone)]
struct Log {
    events: OrdMap<u64, Event>,
    /// Everything after this revision is in `events`.
    start: u64,
    capacity: usize,
}

/// How far a watch has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Position {
    /// It was given everything up to this revision.
    pub(crate) seen: u64,
    /// No deletion up to this revision is news for it. That is beyond `seen` for a watch that began with nothing and
    /// is still being given the state it began with: it cannot have seen what was gone by then.
    settled: u64,
    /// The history that both revisions are of.
    epoch: u64,
    /// How much of the difference to the next history it was given.
    crossed: usize,
}

impl Published {
    /// Nothing, yet.
    pub(crate) fn new(log_capacity: usize) -> Self {
        let log = Log { events: OrdMap::new(), start: 0, capacity: log_capacity };
        Self { state: Arc::default(), log, epoch: 0, fork: None }
    }

    /// The whole content of a back end, before anybody watches.
    pub(crate) fn open(log_capacity: usize, changes: &Changes) -> Self {
        let mut state = State::default();
        state.take_in(changes);
        let log = Log { events: OrdMap::new(), start: state.revision(), capacity: log_capacity };
        Self { state: Arc::new(state), log, epoch: 0, fork: None }
    }

    /// Adds what was found in the back end.
    pub(crate) fn with_changes(&self, mut changes: Changes) -> Self {
        if changes.complete {
            return self.replaced(&mut changes);
        }
        let mut state = State::clone(&self.state);
        state.take_in(&changes);
        self.with_events(state, changes.events)
    }

    /// Replaces everything, by a difference that watches are given. Records that are equal stay the ones in memory.
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
        state.take_in(changes);
        let difference = self.state.difference(&state);
        let revision = state.revision();
        // One history back is enough: a watch that has not finished the one before is told to list again.
        let fork = Fork { before: Self { fork: None, ..self.clone() }, difference, revision };
        let log = Log { events: OrdMap::new(), start: revision, capacity: self.log.capacity };
        Self { state: Arc::new(state), log, epoch: self.epoch + 1, fork: Some(Arc::new(fork)) }
    }

    /// Moves on to `state`, by these events.
    pub(crate) fn with_events(&self, state: State, events: Vec<Event>) -> Self {
        let mut log = self.log.clone();
        log.append(events);
        // As long as for every other watch that lags.
        let fork = self.fork.clone().filter(|fork| log.start <= fork.revision);
        Self { state: Arc::new(state), log, epoch: self.epoch, fork }
    }

    /// How many changes led from the history before to this one, if `before` is of that one.
    pub(crate) fn forked_from(&self, before: &Self) -> Option<usize> {
        let fork = self.fork.as_ref().filter(|_| self.epoch != before.epoch)?;
        Some(fork.difference.len())
    }

    /// Where a watch begins that has seen everything up to a revision, or nothing if that is 0.
    pub(crate) fn position(&self, after: u64) -> Result<Position, StoreError> {
        let begins_with_state = after == 0 && self.log.start > 0;
        let settled = if begins_with_state { self.state.revision() } else { after };
        let position = Position { seen: after, settled, epoch: self.epoch, crossed: 0 };
        self.next(position)?;
        Ok(position)
    }

    /// The next change for a watch, and where it is then; `None` when there is none yet.
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
            // A deletion may be forgotten that the watch has not seen.
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

    /// It begins with the state, where the end of `k` is no news; then it hears from the log that there is a `k`; then
    /// it falls off the log, and now that end is news.
    #[test]
    fn a_deletion_becomes_news_for_who_has_heard_of_its_key() {
        let mut published = Published::new(4);
        write(&mut published, &["a", "b", "c", "k", "-k"]);
        let mut position = published.position(0).unwrap();
        assert_eq!(read(&published, &mut position, 4), ["a", "b", "c", "k"]);
        write(&mut published, &["d", "e", "f", "g"]);
        assert_eq!(read(&published, &mut position, 9), ["-k", "d", "e", "f", "g"]);
    }

    #[test]
    fn who_begins_with_the_state_is_not_told_what_was_before() {
        let mut published = Published::new(1);
        write(&mut published, &["a", "k", "-k", "b"]);
        let mut position = published.position(0).unwrap();
        assert_eq!(read(&published, &mut position, 9), ["a", "b"]);
        write(&mut published, &["-a"]);
        assert_eq!(read(&published, &mut position, 9), ["-a"]);
    }
}
