//! Who may ask now: few at a time, one for each proxy, and a bounded number that waits.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use kodiak_model::ProxyKey;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers at a time.
pub(super) const AT_A_TIME: usize = 8;
/// Callers that wait, in total and for one proxy.
pub(super) const MOST_WAITING: usize = 64;
pub(super) const MOST_WAITING_FOR_ONE: usize = 8;

#[derive(Clone)]
pub(super) struct Turns(Arc<Inner>);

struct Inner {
    all: Arc<Semaphore>,
    waiting: Semaphore,
    /// Of the proxies that are asked, or waited for. Each caller holds its proxy's semaphore.
    proxies: Mutex<BTreeMap<ProxyKey, Weak<Semaphore>>>,
}

/// Ends when it is dropped.
pub(super) struct Turn {
    _of_proxy: OwnedSemaphorePermit,
    _of_all: OwnedSemaphorePermit,
}

impl Default for Turns {
    fn default() -> Self {
        let (all, waiting) = (Arc::new(Semaphore::new(AT_A_TIME)), Semaphore::new(MOST_WAITING));
        Self(Arc::new(Inner { all, waiting, proxies: Mutex::default() }))
    }
}

impl Turns {
    /// Waits for a turn. `None` when too many wait already.
    pub(super) async fn take(&self, proxy: &ProxyKey) -> Option<Turn> {
        let _waiting = self.0.waiting.try_acquire().ok()?;
        let of_proxy = self.of_proxy(proxy)?;
        // First the proxy's, so that waiting for a slow proxy uses no turn of the others.
        let of_proxy = of_proxy.acquire_owned().await.ok()?;
        let of_all = self.0.all.clone().acquire_owned().await.ok()?;
        Some(Turn { _of_proxy: of_proxy, _of_all: of_all })
    }

    fn of_proxy(&self, proxy: &ProxyKey) -> Option<Arc<Semaphore>> {
        let mut proxies = self.0.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = proxies.get(proxy).and_then(Weak::upgrade) {
            // This one, the caller whose turn it is, and those that wait.
            return (Arc::strong_count(&known) <= 1 + MOST_WAITING_FOR_ONE).then_some(known);
        }
        proxies.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(1));
        proxies.insert(proxy.clone(), Arc::downgrade(&new));
        Some(new)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::Future,
        pin::pin,
        task::{Context, Poll, Waker},
    };

    use super::*;

    fn key(n: usize) -> ProxyKey {
        ProxyKey::new("default", &format!("web-{n}"))
    }

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_turn_for_a_proxy_and_few_in_total() {
        let turns = Turns::default();
        let mut taken: Vec<Turn> = (0..AT_A_TIME).map(|n| now(turns.take(&key(n))).unwrap().unwrap()).collect();
        assert!(now(turns.take(&key(99))).is_none(), "it waits");
        taken.pop();
        let again = now(turns.take(&key(0)));
        assert!(again.is_none(), "proxy 0 is asked already, whatever is free");
        assert!(now(turns.take(&key(99))).unwrap().is_some());
    }

    #[tokio::test]
    async fn callers_that_wait_are_bounded_for_a_proxy_and_in_total() {
        let turns = Turns::default();
        let first = turns.take(&key(0)).await.unwrap();
        let take = |n: usize| {
            let turns = turns.clone();
            Box::pin(async move { turns.take(&key(n)).await })
        };
        let mut waiting = Vec::new();
        for _ in 0..MOST_WAITING_FOR_ONE {
            let mut taking = take(0);
            assert!(now(taking.as_mut()).is_none());
            waiting.push(taking);
        }
        assert!(turns.take(&key(0)).await.is_none(), "too many wait for this proxy");
        drop(turns.take(&key(1)).await.expect("others go on"));
        for n in 0..MOST_WAITING {
            let mut taking = take(1 + n / MOST_WAITING_FOR_ONE);
            if now(taking.as_mut()).is_none() {
                waiting.push(taking);
            }
        }
        assert!(waiting.len() <= MOST_WAITING);
        drop((first, waiting));
        assert!(turns.take(&key(0)).await.is_some());
        assert_eq!(turns.0.waiting.available_permits(), MOST_WAITING);
        drop(turns.take(&key(500)).await);
        drop(turns.take(&key(501)).await);
        assert_eq!(turns.0.proxies.lock().unwrap().len(), 1, "proxies that nobody asks are forgotten");
    }
}
