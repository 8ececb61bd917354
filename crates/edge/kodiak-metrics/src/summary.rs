//! A summary as Kuma has it: quantiles over the latest observations, in milliseconds.

use std::{
    collections::VecDeque,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// Observations over which quantiles are computed.
const LATEST: usize = 1000;

#[derive(Debug, Clone, Default)]
pub(crate) struct Summary(Arc<Mutex<Observed>>);

#[derive(Debug, Default)]
struct Observed {
    latest: VecDeque<f64>,
    count: u64,
    sum: f64,
}

impl Summary {
    pub(crate) fn observe(&self, took: Duration) {
        let milliseconds = took.as_secs_f64() * 1000.0;
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        observed.count += 1;
        observed.sum += milliseconds;
        if observed.latest.len() == LATEST {
            observed.latest.pop_front();
        }
        observed.latest.push_back(milliseconds);
    }

    /// Writes the family as OpenMetrics. Without observations it has no quantiles.
    pub(crate) fn encode(&self, name: &str, help: &str, zone: &str, text: &mut String) {
        let (mut latest, count, sum) = {
            let observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (observed.latest.iter().copied().collect::<Vec<_>>(), observed.count, observed.sum)
        };
        latest.sort_by(f64::total_cmp);
        let zone = escaped(zone);
        let _ = writeln!(text, "# HELP {name} {help}.\n# TYPE {name} summary");
        for quantile in QUANTILES {
            if let Some(value) = at(&latest, quantile) {
                let _ = writeln!(text, "{name}{{zone=\"{zone}\",quantile=\"{quantile}\"}} {value}");
            }
        }
        let _ = writeln!(text, "{name}_sum{{zone=\"{zone}\"}} {sum}\n{name}_count{{zone=\"{zone}\"}} {count}");
    }
}

/// Smallest value that so much of the sorted values do not exceed.
fn at(sorted: &[f64], quantile: f64) -> Option<f64> {
    let beyond = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most 1,000"
    )]
    let rank = (sorted.len() as f64 * quantile).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(beyond)).copied()
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(summary: &Summary) -> String {
        let mut text = String::new();
        summary.encode("took", "Time", "east", &mut text);
        text
    }

    #[test]
    fn quantiles_are_of_the_latest_observations() {
        let summary = Summary::default();
        for milliseconds in 1..=2000 {
            summary.observe(Duration::from_millis(milliseconds));
        }
        let expected = "# HELP took Time.\n\
                        # TYPE took summary\n\
                        took{zone=\"east\",quantile=\"0.5\"} 1500\n\
                        took{zone=\"east\",quantile=\"0.9\"} 1900\n\
                        took{zone=\"east\",quantile=\"0.99\"} 1990\n\
                        took_sum{zone=\"east\"} 2001000\n\
                        took_count{zone=\"east\"} 2000\n";
        assert_eq!(encoded(&summary), expected);
    }

    #[test]
    fn one_observation_is_every_quantile() {
        let summary = Summary::default();
        assert!(!encoded(&summary).contains("quantile"));
        summary.observe(Duration::from_millis(5));
        assert_eq!(encoded(&summary).matches("} 5\n").count(), 4);
    }
}
