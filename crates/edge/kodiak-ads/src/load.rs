//! One stream of load reports (LRS): the proxy reports how many requests it sent to each cluster.
//!
//! Envoy counts the requests to a cluster from the response that follows the cluster's arrival, so a response is sent again
//! when the proxy has new configuration. It restarts Envoy's timer, and therefore has only the rest of the interval.

use std::sync::Arc;
use std::time::Duration;

use kodiak_envoy::duration;
use kodiak_envoy::envoy::service::load_stats::v3::{LoadStatsRequest, LoadStatsResponse};
use tokio::time::Instant;

use crate::outbox::Outbox;
use crate::proxies::{Closing, LoadHello, LoadSession};
use crate::requests::{Requests, invalid};
use crate::stream::{self, StreamContext, closed, released};

/// Longest report: tens of thousands of clusters.
const LONGEST_REPORT: u32 = 16 * 1024 * 1024;
/// Longest name of a cluster in a report. Ours are far shorter.
const LONGEST_NAME: usize = 4096;
/// Time between two reports of a proxy that reports more often than it was asked to. Until then nothing more is read.
const PACE: Duration = Duration::from_millis(500);
/// Shortest interval that Envoy is asked for.
const SHORTEST: Duration = Duration::from_secs(1);

/// Does not end by itself, as [`stream::run`].
pub(crate) async fn run(context: StreamContext, mut requests: Requests, outbox: Arc<Outbox>) {
    let carried = carry(&context, &mut requests, &outbox);
    stream::until_end(&context, &outbox, carried).await;
}

/// `Ok` when the client ends the stream.
async fn carry(context: &StreamContext, requests: &mut Requests, outbox: &Outbox) -> Result<(), Closing> {
    let StreamContext { proxies, peer, credential, limits, .. } = context;
    let Ok(first) = tokio::time::timeout(limits.hello, requests.message::<LoadStatsRequest>()).await else {
        return Err(invalid("the first message of the stream did not arrive in time"));
    };
    let Some(mut first) = first? else { return Ok(()) };
    let Some(node) = first.node.take().filter(|node| !node.id.is_empty()) else {
        return Err(invalid("the first message of a stream must have a `node`"));
    };
    let id = node.id.clone();
    let hello = LoadHello { node, credential: credential.clone(), peer: *peer };
    let session = proxies.connect_load(hello).await?;
    tracing::debug!(%peer, node = id, "load report stream opened");
    requests.bound(LONGEST_REPORT);
    let now = Instant::now();
    let mut carrier = Carrier { session, outbox, reported: now, next: now, is_short: false };
    // A proxy that reconnects reports what it counted meanwhile.
    carrier.report(first)?;
    carrier.ask(carrier.session.interval)?;
    loop {
        tokio::select! {
            biased;
            closing = closed(&mut carrier.session.closing) => return Err(closing),
            changed = carrier.session.configured.changed(), if outbox.is_empty() => match changed {
                Ok(()) => carrier.ask_again()?,
                Err(_) => return Err(released()),
            },
            () = outbox.response_taken() => (),
            next = paced(carrier.next, requests) => {
                let Some(next) = next? else { return Ok(()) };
                if next.node.as_ref().is_some_and(|node| node.id != id) {
                    return Err(invalid("`node.id` must not change within a stream"));
                }
                carrier.report(next)?;
                if carrier.is_short {
                    carrier.ask(carrier.session.interval)?;
                }
            }
        }
    }
}

/// The next report, but not before `time`.
async fn paced(time: Instant, requests: &mut Requests) -> Result<Option<LoadStatsRequest>, Closing> {
    tokio::time::sleep_until(time).await;
    requests.message().await
}

struct Carrier<'a> {
    session: LoadSession,
    outbox: &'a Outbox,
    /// Time of the last report.
    reported: Instant,
    /// Time from which the next report is read.
    next: Instant,
    /// Whether Envoy was asked for less than the interval.
    is_short: bool,
}

impl Carrier<'_> {
    fn report(&mut self, report: LoadStatsRequest) -> Result<(), Closing> {
        if report.cluster_stats.iter().any(|stats| stats.cluster_name.len() > LONGEST_NAME) {
            return Err(invalid(&format!("a cluster name is longer than {LONGEST_NAME} bytes")));
        }
        self.reported = Instant::now();
        self.next = self.reported + PACE;
        self.session.report.report(report.cluster_stats);
        Ok(())
    }

    /// Clusters that are new to Envoy count from now on.
    fn ask_again(&mut self) -> Result<(), Closing> {
        let rest = self.session.interval.saturating_sub(self.reported.elapsed());
        self.ask(rest.max(SHORTEST))
    }

    fn ask(&mut self, interval: Duration) -> Result<(), Closing> {
        self.is_short = interval < self.session.interval;
        self.outbox.put_message(&LoadStatsResponse {
            send_all_clusters: true,
            load_reporting_interval: Some(duration(interval)),
            ..LoadStatsResponse::default()
        })
    }
}
