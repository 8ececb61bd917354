//! Counts of requests by result.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::call::CallResponse;
use super::flow::Flow;
use super::latency::Latencies;

#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// Requests with a status that is tolerated instead of the expected one.
    pub(super) tolerated: u64,
    pub(super) latencies: Latencies,
    /// By the name of the service that answered last, in the response.
    pub(super) answered_by: BTreeMap<String, u64>,
    pub(super) statuses: BTreeMap<u16, u64>,
    pub(super) last_failure: Option<String>,
}

/// A service, and the one that it called for the answer.
#[derive(Deserialize)]
struct Answered {
    name: String,
    next: Option<Box<Answered>>,
}

impl Answered {
    fn last(self) -> String {
        match self.next {
            Some(next) => next.last(),
            None => self.name,
        }
    }
}

impl Tally {
    pub(super) fn add(&mut self, flow: &Flow, answer: &Result<CallResponse, String>, took: Duration) {
        self.requests += 1;
        if let Ok(answer) = answer {
            *self.statuses.entry(answer.status.as_u16()).or_default() += 1;
            if flow.tolerated.contains(&answer.status.as_u16()) {
                self.tolerated += 1;
                return;
            }
        }
        match answer.as_ref().map_err(Clone::clone).and_then(|answer| flow.expect.check(answer).map(|()| answer)) {
            Ok(answer) => {
                self.latencies.add(took);
                if let Ok(answered) = serde_json::from_slice::<Answered>(&answer.body) {
                    *self.answered_by.entry(answered.last()).or_default() += 1;
                }
            }
            Err(failure) => {
                self.failed += 1;
                self.last_failure = Some(failure);
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.tolerated += other.tolerated;
        self.latencies.merge(&other.latencies);
        for (status, count) in &other.statuses {
            *self.statuses.entry(*status).or_default() += count;
        }
        for (name, count) in &other.answered_by {
            *self.answered_by.entry(name.clone()).or_default() += count;
        }
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
    }

    pub(super) fn of<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }

    pub(super) fn right(&self) -> u64 {
        self.requests - self.failed - self.tolerated
    }

    /// Whether there were requests and none failed.
    pub(super) fn is_fine(&self) -> bool {
        self.requests > 0 && self.failed == 0
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "requests": self.requests,
            "failed": self.failed,
            "statuses": self.statuses,
            "p50_ms": self.latencies.milliseconds(50),
            "p99_ms": self.latencies.milliseconds(99),
            "answered_by": self.answered_by,
            "last_failure": self.last_failure,
        })
    }

    /// One human-readable line.
    pub(super) fn line(&self) -> String {
        let mut line = format!(
            "{} requests, {} failed, p50 {}, p99 {}",
            self.requests,
            self.failed,
            time(&self.latencies, 50),
            time(&self.latencies, 99)
        );
        if let Some(failure) = &self.last_failure {
            line.push_str("; the last failure: ");
            line.push_str(failure);
        }
        line
    }
}

pub(super) fn time(latencies: &Latencies, percent: u64) -> String {
    latencies.milliseconds(percent).map_or_else(|| "-".to_owned(), |time| format!("{time:.1} ms"))
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::super::flow::Expect;
    use super::*;

    fn flow(tolerated: &'static [u16]) -> Flow {
        Flow { uris: Vec::new(), expect: Expect::Success, tolerated }
    }

    #[test]
    fn counts_failures_apart_from_responses() {
        let answer = |status: StatusCode| Ok(CallResponse { status, body: r#"{"name": "api-1"}"#.into() });
        let mut tally = Tally::default();
        assert!(!tally.is_fine(), "nothing was asked");
        tally.add(&flow(&[]), &answer(StatusCode::OK), Duration::from_micros(1500));
        assert!(tally.is_fine());
        let mut other = Tally::default();
        other.add(&flow(&[]), &answer(StatusCode::BAD_GATEWAY), Duration::from_secs(1));
        other.add(&flow(&[]), &Err("connection refused".to_owned()), Duration::from_secs(1));
        let all = Tally::of([&tally, &other]);
        assert_eq!((all.requests, all.failed, all.right(), all.is_fine()), (3, 2, 1, false));
        assert_eq!(all.answered_by, BTreeMap::from([("api-1".to_owned(), 1)]));
        let expected = "3 requests, 2 failed, p50 1.5 ms, p99 1.5 ms; the last failure: connection refused";
        assert_eq!(all.line(), expected);
    }

    #[test]
    fn tolerated_statuses_are_no_failures_and_no_successes() {
        let mut tally = Tally::default();
        for status in [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS, StatusCode::BAD_GATEWAY] {
            tally.add(&flow(&[429]), &Ok(CallResponse { status, body: "".into() }), Duration::ZERO);
        }
        assert_eq!((tally.requests, tally.failed, tally.tolerated, tally.right()), (3, 1, 1, 1));
        assert_eq!(tally.statuses, BTreeMap::from([(200, 1), (429, 1), (502, 1)]));
    }
}
