//! Load reports of Envoy (LRS), reduced to what is recorded.
//!
//! Envoy reports counters as differences to its report before, so nothing is counted twice. For TCP, a request is a
//! connection.

use kodiak_envoy::envoy::config::endpoint::v3::{ClusterStats, UpstreamLocalityStats};

/// Limit of the time that a report says it covers. Envoy continues to count while its control plane is away.
const LONGEST_REPORT: i64 = 24 * 60 * 60;

/// Traffic to a cluster since the last report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClusterLoad {
    /// HTTP requests or TCP connections, also those that circuit breakers dropped.
    pub requests: u64,
    pub failed: u64,
    /// Requests or connections that are in progress.
    pub open: u64,
}

impl ClusterLoad {
    pub fn of(stats: &ClusterStats) -> Self {
        let dropped = stats.total_dropped_requests;
        let mut load = Self { requests: dropped, failed: dropped, open: 0 };
        for locality in &stats.upstream_locality_stats {
            let UpstreamLocalityStats {
                total_issued_requests,
                total_error_requests,
                total_fail_connections,
                total_requests_in_progress,
                ..
            } = locality;
            load.requests = load.requests.saturating_add(*total_issued_requests);
            load.failed = load.failed.saturating_add((*total_error_requests).max(*total_fail_connections));
            load.open = load.open.saturating_add(*total_requests_in_progress);
        }
        load
    }

    pub fn is_used(self) -> bool {
        let Self { requests, failed, open } = self;
        requests > 0 || failed > 0 || open > 0
    }
}

/// Time that a report covers, which is that of its oldest cluster. 0 for the first message of a stream.
pub fn covered_seconds(stats: &[ClusterStats]) -> i64 {
    let intervals = stats.iter().filter_map(|stats| stats.load_report_interval.as_ref());
    intervals.map(|interval| interval.seconds).max().unwrap_or(0).clamp(0, LONGEST_REPORT)
}

#[cfg(test)]
mod tests {
    use kodiak_envoy::google::protobuf::Duration;

    use super::*;

    #[test]
    fn localities_are_summed_and_dropped_requests_have_failed() {
        let locality = |issued, error, open| UpstreamLocalityStats {
            total_issued_requests: issued,
            total_error_requests: error,
            total_requests_in_progress: open,
            ..UpstreamLocalityStats::default()
        };
        let stats = ClusterStats {
            upstream_locality_stats: vec![locality(5, 1, 0), locality(u64::MAX, 0, 2)],
            total_dropped_requests: 3,
            ..ClusterStats::default()
        };
        assert_eq!(ClusterLoad::of(&stats), ClusterLoad { requests: u64::MAX, failed: 4, open: 2 });
        assert!(!ClusterLoad::of(&ClusterStats::default()).is_used());
    }

    #[test]
    fn covered_time_is_bounded() {
        let stats = |seconds| ClusterStats {
            load_report_interval: Some(Duration { seconds, nanos: 0 }),
            ..ClusterStats::default()
        };
        assert_eq!(covered_seconds(&[stats(10), stats(3)]), 10);
        assert_eq!(covered_seconds(&[stats(i64::MAX)]), LONGEST_REPORT);
        assert_eq!(covered_seconds(&[stats(-5)]), 0);
        assert_eq!(covered_seconds(&[]), 0);
    }
}
