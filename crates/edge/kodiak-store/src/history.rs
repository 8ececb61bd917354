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
}

impl Published {
    /// Nothing, yet.
    pub(crate) fn new(log_capacity: usize) -> Self {
        let log = Log { events: OrdMap::new(), start: 0, capacity: log_capacity };
        Self { state: Arc::default(), log }
    }

    /// Adds what was found in the back end.
    pub(crate) fn with_changes(&self, changes: Changes) -> Self {
        let mut state = State::clone(&self.state);
        state.take_in(&changes);
        let mut log = self.log.clone();
        if changes.complete {
            // These are the last events only, so they are no log; the state has them.
            log.events = OrdMap::new();
            log.start = state.revision();
        } else {
            log.append(changes.events);
        }
        Self { state: Arc::new(state), log }
    }

    /// Moves on to `state`, by these events.
    pub(crate) fn with_events(&self, state: State, events: Vec<Event>) -> Self {
        let mut log = self.log.clone();
        log.append(events);
        Self { state: Arc::new(state), log }
    }

    /// Where a watch begins that has seen everything up to a revision, or nothing if that is 0.
    pub(crate) fn position(&self, after: u64) -> Result<Position, StoreError> {
        let begins_with_state = after == 0 && self.log.start > 0;
        let settled = if begins_with_state { self.state.revision() } else { after };
        let position = Position { seen: after, settled };
        self.next(position)?;
        Ok(position)
    }

    /// The next change for a watch, and where it is then; `None` when there is none yet.
    pub(crate) fn next(&self, Position { seen, settled }: Position) -> Result<Option<(Event, Position)>, StoreError> {
        let head = self.state.head();
        if seen <= head.revision && seen >= self.log.start {
            let next = self.log.events.range(seen + 1..).next();
            Ok(next.map(|(revision, event)| (event.clone(), Position { seen: *revision, settled: *revision })))
        } else if head.continues(settled) {
            let next = self.state.first_after(seen, settled);
            Ok(next.map(|event| {
                let seen = event.revision();
                (event, Position { seen, settled: settled.max(seen) })
            }))
        } else {
            // A deletion may be forgotten that the watch has not seen. Or the data was replaced by older data.
            Err(StoreError::Expired { after: seen, oldest: self.log.start.min(head.floor) })
        }
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
