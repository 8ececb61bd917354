//! Callers without mTLS, from the access log pipe: counted by port and source address until they are reported.
//!
//! A caller that is new is reported within a second, others once a minute. Reports are sent until the control plane has
//! answered one, so a report whose answer is lost counts twice.
//!
//! **Invariant:** the number of callers is bounded; requests of further ones are counted together.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// Address of lines about callers, as control planes write it.
pub(crate) const ADDRESS: &str = "kodiak.io/plaintext-callers";
/// Control planes accept more in one report.
const MOST_CALLERS: usize = 1024;
/// Time to gather further new callers.
const GATHER: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_mins(1);
const RETRY: Duration = Duration::from_secs(5);

/// Port of the inbound, and source address.
type CallerKey = (u16, IpAddr);

/// Cheap to clone; all clones share their counts.
#[derive(Clone, Default)]
pub(crate) struct PlaintextCallers(Arc<Shared>);

#[derive(Default)]
struct Shared {
    counts: Mutex<Counts>,
    new_caller: Notify,
}

#[derive(Default)]
struct Counts {
    /// Since the last report.
    requests: BTreeMap<CallerKey, u64>,
    dropped: u64,
    /// Callers that were reported before.
    reported: BTreeSet<CallerKey>,
}

/// As `POST /plaintext-callers` expects it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    pub(crate) callers: Vec<ReportedCaller>,
    pub(crate) dropped: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct ReportedCaller {
    port: u16,
    address: IpAddr,
    requests: u64,
}

/// Result of sending a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Also by a control plane that takes no reports.
    Answered,
    Failed,
}

impl PlaintextCallers {
    /// Counts a line: source address and port. Returns whether it is one.
    pub(crate) fn count(&self, line: &str) -> bool {
        let parsed =
            line.trim().split_once(' ').and_then(|(address, port)| Some((port.parse().ok()?, address.parse().ok()?)));
        let Some(caller) = parsed else { return false };
        let mut counts = self.lock();
        let is_new = !counts.reported.contains(&caller);
        if counts.add(caller, 1) && is_new {
            drop(counts);
            self.0.new_caller.notify_one();
        }
        true
    }

    /// Reports until it is dropped.
    pub(crate) async fn report(self, send: impl AsyncFn(&Report) -> Sent) {
        loop {
            // Also when no caller is new.
            let _ = timeout(INTERVAL, self.0.new_caller.notified()).await;
            sleep(GATHER).await;
            let Some(report) = self.take() else { continue };
            if send(&report).await == Sent::Failed {
                self.put_back(&report);
                sleep(RETRY).await;
                self.0.new_caller.notify_one();
            }
        }
    }

    fn take(&self) -> Option<Report> {
        let mut counts = self.lock();
        let requests = std::mem::take(&mut counts.requests);
        let dropped = std::mem::take(&mut counts.dropped);
        for caller in requests.keys() {
            if counts.reported.len() < MOST_CALLERS {
                counts.reported.insert(*caller);
            }
        }
        let callers: Vec<_> = requests
            .into_iter()
            .map(|((port, address), requests)| ReportedCaller { port, address, requests })
            .collect();
        (!callers.is_empty() || dropped > 0).then_some(Report { callers, dropped })
    }

    fn put_back(&self, report: &Report) {
        let mut counts = self.lock();
        counts.dropped += report.dropped;
        for ReportedCaller { port, address, requests } in &report.callers {
            counts.add((*port, *address), *requests);
        }
    }

    /// Counts are consistent even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.0.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Returns whether the caller begins a report.
    fn add(&mut self, caller: CallerKey, requests: u64) -> bool {
        if let Some(known) = self.requests.get_mut(&caller) {
            *known += requests;
            return false;
        }
        if self.requests.len() >= MOST_CALLERS {
            self.dropped += requests;
            return false;
        }
        self.requests.insert(caller, requests);
        true
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;
    use tokio::time::Instant;

    use super::*;

    fn caller(address: &str, port: u16, requests: u64) -> ReportedCaller {
        ReportedCaller { port, address: address.parse().unwrap(), requests }
    }

    #[test]
    fn lines_are_an_address_and_a_port() {
        let callers = PlaintextCallers::default();
        for line in ["10.0.0.1 80\n", "10.0.0.1 80", "fd00::1 81\n"] {
            assert!(callers.count(line), "{line}");
        }
        for line in ["", "10.0.0.1", "10.0.0.1 http", "web 80", "10.0.0.1 70000", "- 80"] {
            assert!(!callers.count(line), "{line}");
        }
        let report = callers.take().unwrap();
        assert_eq!(report.callers, [caller("10.0.0.1", 80, 2), caller("fd00::1", 81, 1)]);
        assert_eq!(callers.take(), None);
    }

    #[test]
    fn callers_beyond_the_limit_are_counted_together() {
        let callers = PlaintextCallers::default();
        for n in 0..MOST_CALLERS + 5 {
            assert!(callers.count(&format!("10.0.{}.{} 80", n / 256, n % 256)));
        }
        callers.count("10.0.0.0 80");
        let report = callers.take().unwrap();
        assert_eq!((report.callers.len(), report.callers[0].requests, report.dropped), (MOST_CALLERS, 2, 5));
        callers.put_back(&report);
        assert_eq!(callers.take().unwrap(), report);
    }

    #[tokio::test(start_paused = true)]
    async fn new_callers_are_reported_at_once_and_others_once_a_minute() {
        let callers = PlaintextCallers::default();
        let (sender, mut reports) = mpsc::unbounded_channel();
        let reporter = callers.clone().report(async move |report| {
            sender.send((Instant::now(), report.clone())).unwrap();
            // The first one is lost.
            if report.callers[0].requests == 1 { Sent::Failed } else { Sent::Answered }
        });
        let reporter = tokio::spawn(reporter);
        tokio::task::yield_now().await;
        let start = Instant::now();
        let mut next = async || {
            let (at, Report { callers, .. }) = reports.recv().await.unwrap();
            (at.duration_since(start).as_secs(), callers[0].requests)
        };
        callers.count("10.0.0.1 80");
        assert_eq!(next().await, (1, 1));
        callers.count("10.0.0.1 80");
        assert_eq!(next().await, (7, 2), "together with those of the lost one");
        callers.count("10.0.0.1 80");
        callers.count("10.0.0.1 80");
        assert_eq!(next().await, (68, 2));
        reporter.abort();
    }
}
