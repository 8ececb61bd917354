//! Versions of a fact that a proxy may have in effect: the one that it acknowledged, and those that were sent to it since.
//!
//! **Invariant:** the version in effect at the proxy is one of them, or unknown is.

use jiff::{SignedDuration, Timestamp};

/// Of a proxy that acknowledges nothing, older versions count as unknown.
const MOST: usize = 16;

#[derive(Debug, Clone)]
pub(crate) struct History<T> {
    /// Oldest first. Never empty.
    versions: Vec<Version<T>>,
    /// Whether the first one was acknowledged, or is unknown.
    has_head: bool,
}

#[derive(Debug, Clone)]
struct Version<T> {
    number: u64,
    fingerprint: u64,
    since: Timestamp,
    /// `None` if it is unknown.
    value: Option<T>,
}

/// A version as a proxy acknowledges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionId {
    pub(crate) number: u64,
    pub(crate) fingerprint: u64,
}

impl<T> History<T> {
    /// The proxy has this version, and no other.
    pub(crate) fn settled(id: VersionId, value: T, now: Timestamp) -> Self {
        Self { versions: vec![Version::new(id, Some(value), now)], has_head: true }
    }

    /// The first version of a proxy that had none.
    pub(crate) fn first(id: VersionId, value: T, now: Timestamp) -> Self {
        Self { has_head: false, ..Self::settled(id, value, now) }
    }

    /// The version after one that is unknown.
    pub(crate) fn after_unknown(id: VersionId, value: T, now: Timestamp) -> Self {
        let unknown = VersionId { number: id.number.saturating_sub(1), fingerprint: !id.fingerprint };
        Self { versions: vec![Version::new(unknown, None, now), Version::new(id, Some(value), now)], has_head: true }
    }

    /// Id of the newest version.
    pub(crate) fn newest(&self) -> VersionId {
        self.versions[self.versions.len() - 1].id()
    }

    /// The newest version is about to be sent again, with this number.
    pub(crate) fn renumber(&mut self, number: u64) {
        if let Some(newest) = self.versions.last_mut() {
            newest.number = newest.number.max(number);
        }
    }

    /// A version that is about to be sent.
    pub(crate) fn push(&mut self, id: VersionId, value: T, now: Timestamp) {
        self.versions.push(Version::new(id, Some(value), now));
        if self.versions.len() > MOST {
            self.versions.remove(0);
            self.versions[0].value = None;
            self.has_head = true;
        }
    }

    /// Forgets versions that the proxy has no more. Returns whether there were any.
    ///
    /// Of versions with the same fingerprint, numbers tell which one is meant. Control planes may count differently if changes
    /// reach them in other batches: the version after a number has the changes until its own.
    pub(crate) fn acknowledge(&mut self, id: VersionId, now: Timestamp) -> bool {
        let equal = |version: &Version<T>| version.fingerprint == id.fingerprint && version.value.is_some();
        let is_equal = |position: &usize| self.versions.get(*position).is_some_and(equal);
        let until = self.versions.iter().rposition(|version| version.number <= id.number);
        let next = until.map_or(0, |until| until + 1);
        let any = || self.versions.iter().rposition(equal);
        let position = until.filter(is_equal).or_else(|| Some(next).filter(is_equal)).or_else(any);
        if let Some(position) = position {
            let changed = position > 0 || !self.has_head;
            self.versions.drain(..position);
            self.has_head = true;
            self.versions[0].number = self.versions[0].number.max(id.number);
            return changed;
        }
        // What it has is unknown, until it acknowledges a version that is known.
        let was_known = self.versions[0].value.is_some() || !self.has_head;
        if self.has_head && self.versions.len() > 1 {
            self.versions.remove(0);
        }
        for version in &mut self.versions {
            version.since = now;
        }
        self.versions.insert(0, Version::new(id, None, now));
        self.has_head = true;
        was_known
    }

    /// The proxy has the newest version, or will have it before it serves again. Returns whether others are forgotten.
    pub(crate) fn settle(&mut self) -> bool {
        let is_waiting = self.waits_since().is_some();
        self.versions.drain(..self.versions.len() - 1);
        self.has_head = true;
        is_waiting
    }

    /// All versions that the proxy may have. `None` is an unknown one.
    pub(crate) fn possible(&self) -> impl Iterator<Item = Option<&T>> {
        self.versions.iter().map(|version| version.value.as_ref())
    }

    /// The version that it had before those that it has not acknowledged, if it had one. `None` is an unknown one.
    pub(crate) fn head(&self) -> impl Iterator<Item = Option<&T>> {
        self.possible().take(usize::from(self.has_head))
    }

    /// Versions that were sent this long ago.
    pub(crate) fn older_than(&self, age: SignedDuration, now: Timestamp) -> impl Iterator<Item = Option<&T>> {
        let is_old = move |version: &&Version<T>| now.duration_since(version.since) >= age;
        self.versions.iter().filter(is_old).map(|version| version.value.as_ref())
    }

    /// Whether a version was sent after this time that the proxy has not acknowledged.
    pub(crate) fn has_unacknowledged_after(&self, time: Timestamp) -> bool {
        self.versions.iter().skip(usize::from(self.has_head)).any(|version| version.since > time)
    }

    /// Time of the oldest version that the proxy has not acknowledged. `None` if it has acknowledged the newest.
    pub(crate) fn waits_since(&self) -> Option<Timestamp> {
        self.versions.get(usize::from(self.has_head)).map(|version| version.since)
    }
}

impl<T> Version<T> {
    fn new(id: VersionId, value: Option<T>, since: Timestamp) -> Self {
        Self { number: id.number, fingerprint: id.fingerprint, since, value }
    }

    fn id(&self) -> VersionId {
        VersionId { number: self.number, fingerprint: self.fingerprint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn id(number: u64, value: char) -> VersionId {
        VersionId { number, fingerprint: u64::from(value) }
    }

    /// Versions by number and value, the first of them acknowledged.
    fn history(versions: &[(u64, char)]) -> History<char> {
        let mut versions = versions.iter().map(|(number, value)| (id(*number, *value), *value));
        let (first, value) = versions.next().unwrap();
        let mut history = History::settled(first, value, NOW);
        versions.for_each(|(id, value)| history.push(id, value, NOW));
        history
    }

    fn possible(history: &History<char>) -> String {
        history.possible().map(|value| value.copied().unwrap_or('?')).collect()
    }

    #[track_caller]
    fn check(versions: &[(u64, char)], acknowledged: (u64, char), expected: &str) {
        let mut history = history(versions);
        history.acknowledge(id(acknowledged.0, acknowledged.1), NOW);
        assert_eq!(possible(&history), expected);
    }

    #[test]
    fn acknowledged_version_replaces_those_before() {
        check(&[(1, 'a')], (1, 'a'), "a");
        check(&[(1, 'a'), (2, 'b'), (3, 'c')], (1, 'a'), "abc");
        check(&[(1, 'a'), (2, 'b'), (3, 'c')], (2, 'b'), "bc");
        check(&[(1, 'a'), (2, 'b'), (3, 'c')], (3, 'c'), "c");
    }

    #[test]
    fn number_tells_equal_versions_apart() {
        let versions = [(1, 'a'), (2, 'b'), (3, 'a')];
        check(&versions, (1, 'a'), "aba");
        check(&versions, (2, 'a'), "a");
        check(&versions, (3, 'a'), "a");
        check(&versions, (9, 'a'), "a");
    }

    #[test]
    fn numbers_of_other_batches_are_matched_by_what_they_contain() {
        check(&[(1, 'a'), (4, 'b')], (3, 'b'), "b");
        check(&[(1, 'a'), (4, 'b')], (9, 'b'), "b");
        check(&[(5, 'a'), (6, 'b')], (2, 'b'), "b");
    }

    #[test]
    fn version_that_nobody_here_knows_is_unknown() {
        check(&[(1, 'a')], (2, 'x'), "?a");
        check(&[(1, 'a'), (2, 'b')], (2, 'x'), "?b");
        let mut history = history(&[(1, 'a'), (2, 'b')]);
        assert!(history.acknowledge(id(2, 'x'), NOW) && history.waits_since().is_some());
        assert!(history.acknowledge(id(2, 'b'), NOW) && history.waits_since().is_none());
    }

    #[test]
    fn oldest_of_many_versions_are_unknown() {
        let versions: Vec<(u64, char)> = (0..100).map(|n| (n, char::from(b'a' + (n % 26) as u8))).collect();
        let history = history(&versions);
        assert_eq!((history.possible().count(), history.head().next()), (MOST, Some(None)));
        assert_eq!(history.newest(), id(99, versions[99].1));
    }

    #[test]
    fn first_version_of_a_new_proxy_waits() {
        let mut history = History::first(id(1, 'a'), 'a', NOW);
        assert!(history.head().next().is_none() && history.waits_since().is_some());
        assert!(history.acknowledge(id(1, 'a'), NOW) && history.waits_since().is_none());
        assert_eq!(history.head().next(), Some(Some(&'a')));
    }
}
