//! Times in which a client was observed.

use serde::{Deserialize, Serialize};

/// Reports of one proxy follow each other without gaps; their arrival varies by this many seconds.
const JITTER: i64 = 2;
/// Gaps before the last ones are not kept; the time before them counts as not observed.
const MOST_SPANS: usize = 64;

/// Seconds since the epoch in which at least one proxy of a client reported: disjoint spans, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Coverage(Vec<(i64, i64)>);

impl Coverage {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn since(&self) -> Option<i64> {
        self.0.first().map(|(start, _)| *start)
    }

    pub fn until(&self) -> Option<i64> {
        self.0.last().map(|(_, end)| *end)
    }

    /// Seconds of all spans.
    pub fn seconds(&self) -> u64 {
        self.0.iter().map(|(start, end)| u64::try_from(end - start).unwrap_or(0)).sum()
    }

    /// Adds a span. Spans that touch each other become one.
    pub fn add(&mut self, start: i64, end: i64) {
        if end < start {
            return;
        }
        let first = self.0.partition_point(|(_, known)| known.saturating_add(JITTER) < start);
        let mut joined = (start, end);
        let mut last = first;
        while let Some((known_start, known_end)) =
            self.0.get(last).filter(|(known, _)| *known <= end.saturating_add(JITTER))
        {
            joined = (joined.0.min(*known_start), joined.1.max(*known_end));
            last += 1;
        }
        self.0.splice(first..last, [joined]);
        if self.0.len() > MOST_SPANS {
            self.0.remove(0);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|(start, end)| self.add(*start, *end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(spans: &[(i64, i64)]) -> Coverage {
        let mut coverage = Coverage::default();
        for (start, end) in spans {
            coverage.add(*start, *end);
        }
        coverage
    }

    #[test]
    fn spans_that_touch_become_one_and_gaps_stay() {
        assert_eq!(of(&[(0, 10), (10, 20), (21, 30)]).0, [(0, 30)]);
        assert_eq!(of(&[(0, 10), (100, 110), (5, 12)]).0, [(0, 12), (100, 110)]);
        assert_eq!(of(&[(0, 10), (100, 110), (8, 105)]).0, [(0, 110)]);
        assert_eq!(of(&[(100, 110), (0, 10)]).seconds(), 20);
        assert_eq!(of(&[(10, 0)]), Coverage::default());
    }

    #[test]
    fn two_proxies_of_a_client_are_observed_once() {
        let mut all = of(&[(0, 100)]);
        all.merge(&of(&[(50, 150), (200, 210)]));
        assert_eq!((all.since(), all.until(), all.seconds()), (Some(0), Some(210), 160));
    }

    #[test]
    fn old_gaps_are_not_kept_for_ever() {
        let spans: Vec<_> = (0..1000).map(|n| (n * 100, n * 100 + 10)).collect();
        let all = of(&spans);
        assert_eq!(all.0.len(), MOST_SPANS);
        assert_eq!(all.until(), Some(99_910));
    }
}
