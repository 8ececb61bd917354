//! The response body of a stream: the contents of its outbox, then the trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use tokio::task::JoinSet;

use crate::grpc;
use crate::outbox::{Outbox, Piece};

/// Polled for a frame whenever the client has window for one. It owns the task of its stream: when the connection drops
/// it, because everything is sent or the client has disconnected, the task ends.
#[derive(Debug)]
pub(crate) struct StreamBody {
    outbox: Arc<Outbox>,
    _task: JoinSet<()>,
    ended: bool,
}

impl StreamBody {
    pub(crate) fn new(outbox: Arc<Outbox>, task: JoinSet<()>) -> Self {
        Self { outbox, _task: task, ended: false }
    }
}

impl http_body::Body for StreamBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = match ready!(self.outbox.poll_take(context)) {
            Piece::Data(bytes) => Frame::data(bytes),
            Piece::End(closing) => {
                self.ended = true;
                Frame::trailers(grpc::trailers(&closing))
            }
        };
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use http_body::Body as _;
    use http_body_util::BodyExt as _;
    use kodiak_xds_stream::{Event, Requested, Stream, delta};
    use tokio::sync::oneshot;

    use super::*;
    use crate::proxies::Closing;

    fn put_one(outbox: &Outbox) {
        let mut stream = Stream::<delta::Subscription>::default();
        let unknown = Event::Request(Requested::from_wire("unknown"), delta::Request::default());
        outbox.put::<delta::Subscription>(stream.on(unknown)).unwrap();
    }

    #[tokio::test]
    async fn pending_body_wakes_for_responses_and_for_the_end() {
        let outbox = Arc::new(Outbox::default());
        let mut body = StreamBody::new(outbox.clone(), JoinSet::new());
        let reader = tokio::spawn(async move {
            let mut seen = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.unwrap();
                seen.push(frame.trailers_ref().map(|trailers| trailers["grpc-status"].clone()));
            }
            (seen, body.is_end_stream())
        });
        tokio::task::yield_now().await;
        put_one(&outbox);
        outbox.response_taken().await;
        outbox.end(Closing { code: 14, message: "stop".to_owned() });
        assert_eq!(reader.await.unwrap(), (vec![None, Some("14".parse().unwrap())], true));
    }

    #[tokio::test]
    async fn dropped_body_ends_its_task() {
        let (held_by_task, ended) = oneshot::channel::<()>();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let _held = held_by_task;
            pending::<()>().await;
        });
        drop(StreamBody::new(Arc::default(), task));
        ended.await.unwrap_err();
    }
}
