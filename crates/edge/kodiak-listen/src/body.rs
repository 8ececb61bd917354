//! A response body that knows when it was taken.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};

use crate::activity::Exchange;

/// Ends its request when it was read to its end, or is dropped.
pub struct Tracked<B> {
    body: B,
    exchange: Option<Exchange>,
}

impl<B: Body> Tracked<B> {
    pub(crate) fn new(body: B, mut exchange: Exchange) -> Self {
        // Nobody polls a body that has nothing.
        let exchange = if body.is_end_stream() {
            exchange.complete();
            None
        } else {
            Some(exchange)
        };
        Self { body, exchange }
    }

    fn complete(&mut self) {
        if let Some(mut exchange) = self.exchange.take() {
            exchange.complete();
        }
    }
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            // The last frame is not on the wire yet. The request counts as under way until hyper drops this body, which
            // it does when it has written the frame; but it was not aborted.
            if let Some(exchange) = &mut self.exchange {
                exchange.complete();
            }
        }
        if frame.is_none() {
            self.complete();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
