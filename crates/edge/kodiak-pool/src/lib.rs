//! Threads for answers that are computed from a whole mesh: previews, graphs, lists, discovery for Prometheus.
//!
//! ```text
//!  request --> place in the queue --> turn --> thread of the pool --> answer
//!              none left: refused     the deadline passes, or the caller hangs up: cancelled
//! ```
//!
//! **Invariant:** at most as many computations run as the pool has threads, whatever callers ask for, also when they hang
//! up: a turn ends when its computation ends.
//! **Invariant:** a caller waits in a queue of bounded length, and for a bounded time. A caller that hangs up leaves the
//! queue at once, and its computation is cancelled.
//! **Invariant:** anonymous callers have at most half of the queue and of the threads: others always get a turn.
//! **Invariant:** no computation runs on a thread that serves connections.

mod threads;

use std::{
    fmt,
    num::NonZero,
    sync::{Arc, OnceLock},
    thread::available_parallelism,
    time::Duration,
};

use kodiak_model::Cancellation;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, timeout_at},
};

use threads::Threads;

/// Computations that are allowed at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLimits {
    pub threads: NonZero<usize>,
    /// Callers that wait for a turn.
    pub queue: usize,
    /// From the arrival of a caller to its answer.
    pub longest: Duration,
}

impl Default for PoolLimits {
    fn default() -> Self {
        let cores = available_parallelism().map_or(2, NonZero::get);
        let threads = NonZero::new((cores / 2).clamp(2, 8)).expect("at least 2");
        Self { threads, queue: 64, longest: Duration::from_secs(25) }
    }
}

/// Whose computation it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    Anonymous,
    /// A user with credentials, this machine, or a program whose port is not for users.
    Known,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    #[error("too many computed answers are waited for")]
    Full,
    #[error("the answer took longer than {} s to compute", .0.as_secs())]
    TooLong(Duration),
    #[error("the computation panicked")]
    Panicked,
}

/// Cheap to clone; all clones share the threads, which start with the first computation and end with the last clone.
#[derive(Clone)]
pub struct Pool(Arc<Inner>);

struct Inner {
    limits: PoolLimits,
    /// One permit for each thread.
    turns: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    anonymous_turns: Arc<Semaphore>,
    anonymous_queue: Arc<Semaphore>,
    threads: OnceLock<Threads>,
}

/// Permits of a running computation.
struct Turn {
    _turn: OwnedSemaphorePermit,
    _anonymous: Option<OwnedSemaphorePermit>,
}

impl Pool {
    pub fn new(limits: PoolLimits) -> Self {
        let semaphore = |permits: usize| Arc::new(Semaphore::new(permits));
        let threads = limits.threads.get();
        Self(Arc::new(Inner {
            limits,
            turns: semaphore(threads),
            queue: semaphore(limits.queue),
            anonymous_turns: semaphore(half(threads)),
            anonymous_queue: semaphore(half(limits.queue)),
            threads: OnceLock::new(),
        }))
    }

    pub fn limits(&self) -> PoolLimits {
        self.0.limits
    }

    /// Computations that run now.
    pub fn running(&self) -> usize {
        self.0.limits.threads.get() - self.0.turns.available_permits()
    }

    /// Runs `work` on a thread of the pool. Its cancellation is cancelled when this future is dropped, or when its time is
    /// over.
    pub async fn run<T: Send + 'static>(
        &self,
        caller: Caller,
        work: impl FnOnce(&Cancellation) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let deadline = Instant::now() + self.0.limits.longest;
        let too_long = |_| PoolError::TooLong(self.0.limits.longest);
        let turn = timeout_at(deadline, self.turn(caller)).await.map_err(too_long)??;
        let cancelled = CancelledOnDrop(Cancellation::default());
        let cancellation = cancelled.0.clone();
        let (send, answer) = oneshot::channel();
        let threads = self.0.threads.get_or_init(|| Threads::start(self.0.limits.threads));
        threads.run(Box::new(move || {
            let answer = work(&cancellation);
            // The turn ends with the computation, also by a panic, and before its caller can ask again.
            drop(turn);
            // The receiver is gone if nobody waits any more.
            let _ = send.send(answer);
        }));
        timeout_at(deadline, answer).await.map_err(too_long)?.map_err(|_| PoolError::Panicked)
    }

    async fn turn(&self, caller: Caller) -> Result<Turn, PoolError> {
        let Inner { turns, queue, anonymous_turns, anonymous_queue, .. } = &*self.0;
        let is_anonymous = caller == Caller::Anonymous;
        // Without a queue there is still a turn for who comes first.
        let free = turns.clone().try_acquire_owned().ok();
        let own = if is_anonymous { anonymous_turns.clone().try_acquire_owned().ok() } else { None };
        if let (Some(turn), true) = (free, own.is_some() || !is_anonymous) {
            return Ok(Turn { _turn: turn, _anonymous: own });
        }
        drop(own);
        let place = |queue: &Arc<Semaphore>| queue.clone().try_acquire_owned().map_err(|_| PoolError::Full);
        let _places = (is_anonymous.then(|| place(anonymous_queue)).transpose()?, place(queue)?);
        let closed = "the semaphores of a pool are never closed";
        let own = if is_anonymous { Some(anonymous_turns.clone().acquire_owned().await.expect(closed)) } else { None };
        Ok(Turn { _turn: turns.clone().acquire_owned().await.expect(closed), _anonymous: own })
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(PoolLimits::default())
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("limits", &self.0.limits).field("running", &self.running()).finish_non_exhaustive()
    }
}

fn half(of: usize) -> usize {
    (of / 2).max(1)
}

/// Cancels the computation of a caller that is gone.
struct CancelledOnDrop(Cancellation);

impl Drop for CancelledOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

#[cfg(test)]
mod tests;
