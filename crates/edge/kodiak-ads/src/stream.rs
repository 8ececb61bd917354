//! One stream, from its first request to its end.
//!
//! The state machine of `kodiak-xds-stream` decides what is sent; this task passes requests and snapshots to it, and puts
//! its responses into the outbox. A snapshot is passed only when the outbox is empty: snapshots that arrive while a client
//! is slow replace each other, and the client gets the last one.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use kodiak_xds_stream::{Event, Requested, Stream, TypeUrl};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::proxies::{Closing, Credential, Hello, Proxies, Session, StreamReport};
use crate::requests::{MOST_NAMES, Requests, invalid};
use crate::wire::Wire;

/// Properties of the connection of a stream.
pub(crate) struct StreamContext {
    pub(crate) proxies: Arc<dyn Proxies>,
    pub(crate) limits: Limits,
    pub(crate) drain: CancellationToken,
    pub(crate) peer: SocketAddr,
    pub(crate) credential: Credential,
    /// Closes the connection.
    pub(crate) cut: CancellationToken,
}

/// Does not return by itself: the reader of `outbox` drops it once the client has read the trailers, or the connection is
/// closed.
pub(crate) async fn run<W: Wire>(context: StreamContext, mut requests: Requests, outbox: Arc<Outbox>) {
    let carried = carry::<W>(&context, &mut requests, &outbox);
    until_end(&context, &outbox, carried).await;
}

/// Ends the stream with a status when `carried` returns or the control plane drains.
pub(crate) async fn until_end(
    context: &StreamContext,
    outbox: &Outbox,
    carried: impl Future<Output = Result<(), Closing>> + Send,
) {
    let _guard = EndOnPanic(outbox);
    let ended = tokio::select! {
        biased;
        () = context.drain.cancelled() => Err(unavailable("the control plane is stopping; connect again")),
        ended = carried => ended,
    };
    let closing = match ended {
        Ok(()) => Closing { code: Closing::OK, message: String::new() },
        Err(closing) => {
            outbox.clear();
            closing
        }
    };
    tracing::debug!(peer = %context.peer, code = closing.code, message = closing.message, "xDS stream closed");
    outbox.end(closing);
    tokio::time::sleep(context.limits.farewell).await;
    tracing::debug!(peer = %context.peer, "closing connection: the client does not read the end of its stream");
    context.cut.cancel();
}

/// A stream whose task panicked is closed, so that the proxy reconnects instead of waiting forever.
struct EndOnPanic<'a>(&'a Outbox);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.clear();
            self.0.end(Closing {
                code: Closing::INTERNAL,
                message: "internal error of the control plane; connect again".to_owned(),
            });
        }
    }
}

/// `Ok` when the client ends the stream. It still gets the responses to its requests.
async fn carry<W: Wire>(context: &StreamContext, requests: &mut Requests, outbox: &Outbox) -> Result<(), Closing> {
    let StreamContext { proxies, peer, credential, limits, .. } = context;
    requests.expect_resources();
    let Ok(first) = tokio::time::timeout(limits.hello, requests.next::<W>()).await else {
        return Err(invalid("the first message of the stream did not arrive in time"));
    };
    let Some(first) = first? else { return Ok(()) };
    let Some(node) = first.node.filter(|node| !node.id.is_empty()) else {
        return Err(invalid("the first request of a stream must have a `node`"));
    };
    let id = node.id.clone();
    let hello = Hello { node, credential: credential.clone(), protocol: W::PROTOCOL, peer: *peer };
    let session = proxies.connect(hello).await?;
    tracing::debug!(%peer, node = id, "xDS stream opened");
    requests.trust();
    let mut carrier = Carrier::<W> {
        stream: Stream::draining(),
        session,
        outbox,
        unsettled: None,
        unsent: None,
        drains: Drains::default(),
    };
    let ended = carrier.carry(&id, (first.type_url, first.request), requests, limits.drain).await;
    if let Err(closing) = &ended {
        carrier.session.report.closed(closing);
    }
    ended
}

pub(crate) async fn closed(closing: &mut watch::Receiver<Option<Closing>>) -> Closing {
    match closing.wait_for(Option::is_some).await {
        Ok(closing) => closing.clone().unwrap_or_else(released),
        Err(_) => released(),
    }
}

/// The registry has dropped the session.
pub(crate) fn released() -> Closing {
    unavailable("the control plane has dropped this stream; connect again")
}

fn unavailable(message: &str) -> Closing {
    Closing { code: Closing::UNAVAILABLE, message: message.to_owned() }
}

/// A stream that was admitted.
struct Carrier<'a, W> {
    stream: Stream<W>,
    session: Session,
    outbox: &'a Outbox,
    /// Revision of the last snapshot, until the client has acknowledged it in full.
    unsettled: Option<u64>,
    /// Revision of the last snapshot, until its responses are sent.
    unsent: Option<u64>,
    drains: Drains,
}

/// Drains of replaced listeners, which removals wait for.
#[derive(Default)]
struct Drains {
    begun: u64,
    ends: VecDeque<(u64, Instant)>,
}

impl Drains {
    /// Connections of listeners that were replaced now get the full time.
    fn begin(&mut self, begun: u64, time: Duration) {
        if begun > self.begun {
            self.begun = begun;
            self.ends.push_back((begun, Instant::now() + time));
        }
    }

    /// The next drain that ends. Cancel-safe.
    async fn next(&mut self) -> u64 {
        let Some((drain, end)) = self.ends.front().copied() else { return std::future::pending().await };
        tokio::time::sleep_until(end).await;
        self.ends.pop_front();
        drain
    }
}

impl<W: Wire> Carrier<'_, W> {
    async fn carry(
        &mut self,
        id: &str,
        (type_url, request): (Requested, W::Request),
        requests: &mut Requests,
        drain: Duration,
    ) -> Result<(), Closing> {
        let outbox = self.outbox;
        self.snapshot()?;
        self.on(Event::Request(type_url, request))?;
        loop {
            tokio::select! {
                biased;
                closing = closed(&mut self.session.closing) => return Err(closing),
                changed = self.session.snapshots.changed(), if outbox.is_empty() => match changed {
                    Ok(()) => self.snapshot()?,
                    Err(_) => return Err(released()),
                },
                () = outbox.response_taken() => self.report(),
                drained = self.drains.next() => self.on(Event::Drained(drained))?,
                next = requests.next::<W>(), if !outbox.is_crowded() => {
                    let Some(next) = next? else { return Ok(()) };
                    if next.node.is_some_and(|node| node.id != id) {
                        return Err(invalid("`node.id` must not change within a stream"));
                    }
                    self.on(Event::Request(next.type_url, next.request))?;
                }
            }
            self.drains.begin(self.stream.drains(), drain);
        }
    }

    /// Passes on the latest snapshot, if there is one yet.
    fn snapshot(&mut self) -> Result<(), Closing> {
        let Some(snapshot) = self.session.snapshots.borrow_and_update().clone() else { return Ok(()) };
        self.unsettled = Some(snapshot.revision);
        self.unsent = Some(snapshot.revision);
        self.on(Event::Snapshot(snapshot))
    }

    fn on(&mut self, event: Event<W::Request>) -> Result<(), Closing> {
        let responses = self.stream.on(event);
        if self.stream.names() > MOST_NAMES {
            let message = format!("the stream subscribes to more than {MOST_NAMES} names");
            return Err(Closing { code: Closing::RESOURCE_EXHAUSTED, message });
        }
        self.outbox.put::<W>(responses)?;
        self.report();
        Ok(())
    }

    fn report(&mut self) {
        let stream = &self.stream;
        // A client without subscriptions lacks nothing, but has acknowledged nothing either.
        let asked = || TypeUrl::ALL.into_iter().any(|type_url| stream.is_subscribed(type_url));
        // Nothing is acknowledged that was not sent. Checked first: it is cheapest, and mostly true.
        let settled = |_: &mut u64| {
            self.outbox.is_empty()
                && asked()
                && stream.is_settled()
                && !stream.lacks_secrets()
                && !stream.lacks_subscriptions()
        };
        let settled = self.unsettled.take_if(settled);
        let sent = self.unsent.take_if(|_| self.outbox.is_empty());
        let counters = TypeUrl::ALL.map(|type_url| (type_url, stream.counters(type_url)));
        self.session.report.report(StreamReport { counters, settled, sent, bytes: self.outbox.bytes() });
    }
}
