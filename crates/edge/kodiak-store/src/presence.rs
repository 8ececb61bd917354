//! Liveness of the control planes that share a store.
//!
//! Each increments a number in the database. An instance is alive while its number changes; only the local monotonic
//! clock is used, so a clock that jumps declares no instance dead. A process that could not read the numbers for a
//! while does not count that time, and starts to observe the others anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

/// An instance that was lost for this long is dropped.
const FORGET: Duration = Duration::from_hours(1);

/// Other control planes that share the store, as of the last read.
#[derive(Debug, Clone)]
pub struct Presence {
    /// Since when this process has read the numbers without a gap.
    since: Instant,
    looked: Instant,
    /// Time without a change after which an instance counts as lost.
    expiry: Duration,
    /// Last number of each instance, and when it was first read.
    heard: BTreeMap<String, (i64, Instant)>,
}

impl Presence {
    /// For a store that only one process can open, and that never hears of others: all others count as lost since it
    /// was opened.
    pub(crate) fn new(expiry: Duration) -> Self {
        let now = Instant::now();
        Self { since: now, looked: now, expiry, heard: BTreeMap::new() }
    }

    /// Handles the numbers as read from the database.
    pub(crate) fn hear(&mut self, numbers: impl IntoIterator<Item = (String, i64)>) {
        let now = Instant::now();
        if now.duration_since(self.looked) > self.expiry {
            self.since = now;
            self.heard.clear();
        }
        self.looked = now;
        let before = std::mem::take(&mut self.heard);
        for (instance, number) in numbers {
            let known = before.get(&instance).filter(|(last, _)| *last == number);
            let first_seen = known.map_or(now, |(_, first_seen)| *first_seen);
            self.heard.insert(instance, (number, first_seen));
        }
        // An instance that removed its number has shut down; the time of its last change still counts.
        for (instance, known) in before {
            self.heard.entry(instance).or_insert(known);
        }
        self.heard.retain(|_, (_, first_seen)| now.duration_since(*first_seen) < FORGET);
    }

    /// Instances that are alive.
    pub fn present(&self) -> BTreeSet<String> {
        self.heard.keys().filter(|instance| self.lost(instance).is_none()).cloned().collect()
    }

    /// Since when an instance is lost; `None` while it is alive.
    pub fn lost(&self, instance: &str) -> Option<Instant> {
        match self.heard.get(instance) {
            Some((_, first_seen)) if first_seen.elapsed() <= self.expiry => None,
            Some((_, first_seen)) => Some(*first_seen),
            None => Some(self.since),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const EXPIRY: Duration = Duration::from_secs(15);

    fn hear(presence: &mut Presence, numbers: &[(&str, i64)]) {
        presence.hear(numbers.iter().map(|(instance, number)| ((*instance).to_owned(), *number)));
    }

    #[tokio::test(start_paused = true)]
    async fn instance_with_unchanged_number_is_lost_since_its_last_change() {
        let mut presence = Presence::new(EXPIRY);
        for number in 0..10 {
            advance(Duration::from_secs(5)).await;
            hear(&mut presence, &[("a", number), ("b", number)]);
        }
        let last = Instant::now();
        assert_eq!((presence.lost("a"), presence.lost("b")), (None, None));
        for number in 10..14 {
            advance(Duration::from_secs(5)).await;
            hear(&mut presence, &[("a", number), ("b", 9)]);
        }
        assert_eq!((presence.lost("a"), presence.lost("b")), (None, Some(last)));
        assert_eq!(presence.present(), BTreeSet::from(["a".to_owned()]));
        advance(Duration::from_secs(5)).await;
        hear(&mut presence, &[("a", 14), ("b", 10)]);
        assert_eq!(presence.lost("b"), None, "it is back");
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_instance_is_lost_since_the_start() {
        let start = Instant::now();
        let presence = Presence::new(EXPIRY);
        advance(Duration::from_secs(100)).await;
        assert_eq!(presence.lost("of an earlier start"), Some(start));
    }

    /// As after a database outage, or a process that was suspended.
    #[tokio::test(start_paused = true)]
    async fn time_without_reads_does_not_count_as_lost() {
        let mut presence = Presence::new(EXPIRY);
        hear(&mut presence, &[("a", 1), ("b", 1)]);
        advance(Duration::from_hours(1)).await;
        // This process is the first to write again.
        hear(&mut presence, &[("a", 2), ("b", 1)]);
        assert_eq!((presence.lost("a"), presence.lost("b")), (None, None));
        assert_eq!(presence.lost("of an earlier start"), Some(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn instance_that_shut_down_is_lost_since_its_last_change() {
        let mut presence = Presence::new(EXPIRY);
        hear(&mut presence, &[("a", 1), ("b", 1)]);
        let last = Instant::now();
        for number in 2..6 {
            advance(Duration::from_secs(5)).await;
            hear(&mut presence, &[("a", number)]);
        }
        assert_eq!(presence.lost("b"), Some(last));
    }
}
