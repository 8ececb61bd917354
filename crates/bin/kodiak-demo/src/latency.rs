//! How long answers took, in a fixed amount of memory however many there are.

use std::time::Duration;

/// Microseconds are told apart exactly below this, and to one part in as many above.
const STEPS: u64 = 32;

/// Counts in buckets that grow with what they hold.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Latencies {
    pub(super) fn add(&mut self, took: Duration) {
        let bucket = bucket(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
    }

    pub(super) fn merge(&mut self, other: &Self) {
        if self.buckets.len() < other.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.count += other.count;
    }

    /// So many of a hundred took no longer; `None` when there are none.
    pub(super) fn percentile(&self, percent: u64) -> Option<Duration> {
        let rank = (self.count * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        found.map(|bucket| Duration::from_micros(highest(bucket)))
    }

    pub(super) fn milliseconds(&self, percent: u64) -> Option<f64> {
        self.percentile(percent).map(|took| (took.as_secs_f64() * 100_000.0).round() / 100.0)
    }
}

fn bucket(micros: u64) -> usize {
    let power = micros.max(1).ilog2().saturating_sub(STEPS.ilog2());
    let step = micros >> power;
    usize::try_from(u64::from(power) * STEPS + step).expect("64 powers of 32 steps")
}

/// The largest value that falls into the bucket.
fn highest(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).expect("64 powers of 32 steps");
    let power = (bucket / STEPS).saturating_sub(1);
    let step = bucket - power * STEPS;
    (((u128::from(step) + 1) << power) - 1).try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn nothing_has_no_percentile() {
        assert_eq!(Latencies::default().percentile(50), None);
    }

    #[test]
    fn milliseconds_are_rounded_for_people() {
        let mut latencies = Latencies::default();
        latencies.add(Duration::from_micros(31));
        assert_eq!(latencies.milliseconds(99), Some(0.03));
    }

    proptest! {
        #[test]
        fn a_percentile_is_the_true_one_to_one_part_in_32(
            mut micros in prop::collection::vec(0..1_u64 << 40, 1..200),
            extreme in prop::option::of(Just(u64::MAX)),
            percent in 1..=100_u64,
            split in 0..200_usize,
        ) {
            micros.extend(extreme);
            let (mut one, mut other) = (Latencies::default(), Latencies::default());
            for (index, value) in micros.iter().enumerate() {
                let part = if index < split { &mut one } else { &mut other };
                part.add(Duration::from_micros(*value));
            }
            one.merge(&other);
            micros.sort_unstable();
            let rank = usize::try_from(percent).unwrap() * micros.len();
            let truth = u128::from(micros[rank.div_ceil(100) - 1]);
            let found = one.percentile(percent).unwrap().as_micros();
            prop_assert!(found >= truth && found - truth <= truth / 32, "{found} for {truth}");
        }
    }
}
