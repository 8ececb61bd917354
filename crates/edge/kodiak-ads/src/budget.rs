//! Memory for clients that are not admitted yet.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Messages up to this length need no reservation. The first message of a new proxy is shorter: HTTP/2 buffers more than
/// that for any stream, and a proxy that starts never waits behind those that reconnect with long lists.
const FREE: usize = 16 * 1024;

/// Bytes that all unadmitted clients may have buffered together. Reservations are of whole messages, and served in order:
/// two half messages never wait for each other.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    bytes: Arc<Semaphore>,
    total: u32,
}

/// Reserved bytes, returned on drop.
pub(crate) type Reserved = Option<OwnedSemaphorePermit>;

impl Budget {
    pub(crate) fn new(bytes: usize) -> Self {
        let total = u32::try_from(bytes).unwrap_or(u32::MAX);
        Self { bytes: Arc::new(Semaphore::new(total as usize)), total }
    }

    /// Waits until a message of this length may be buffered.
    pub(crate) async fn reserve(&self, length: usize) -> Reserved {
        if length <= FREE {
            return None;
        }
        // A message longer than the budget reserves all of it.
        let bytes = u32::try_from(length).unwrap_or(u32::MAX).min(self.total);
        self.bytes.clone().acquire_many_owned(bytes).await.ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn ready<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn long_messages_share_the_budget_and_short_ones_pass() {
        let budget = Budget::new(100_000);
        let first = ready(budget.reserve(60_000)).unwrap();
        assert!(ready(budget.reserve(60_000)).is_none());
        assert!(ready(budget.reserve(FREE)).is_some());
        drop(first);
        assert!(ready(budget.reserve(60_000)).is_some());
    }

    #[test]
    fn message_longer_than_the_budget_reserves_all_of_it() {
        let budget = Budget::new(100_000);
        let all = ready(budget.reserve(1_000_000)).unwrap();
        assert!(ready(budget.reserve(FREE + 1)).is_none());
        drop(all);
    }
}
