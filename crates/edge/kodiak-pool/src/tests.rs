//! Limits of a pool: what runs, who waits, and who is refused.

use std::{
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use tokio::task::JoinHandle;

use super::*;

fn pool(threads: usize, queue: usize) -> Pool {
    let threads = NonZero::new(threads).unwrap();
    Pool::new(PoolLimits { threads, queue, longest: Duration::from_mins(10) })
}

/// Waits for a condition that another thread makes true.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// A computation that runs until it is cancelled or released.
fn stuck(pool: &Pool, caller: Caller) -> (JoinHandle<Result<bool, PoolError>>, mpsc::Sender<()>) {
    let (release, released) = mpsc::channel::<()>();
    let pool = pool.clone();
    let running = tokio::spawn(async move {
        let work = move |cancellation: &Cancellation| {
            while cancellation.check().is_ok() {
                if released.recv_timeout(Duration::from_millis(1)).is_ok() {
                    return true;
                }
            }
            false
        };
        pool.run(caller, work).await
    });
    (running, release)
}

#[tokio::test]
async fn computations_run_on_threads_of_the_pool() {
    let pool = pool(1, 1);
    let name = |_: &Cancellation| thread::current().name().map(str::to_owned);
    assert_eq!(pool.run(Caller::Known, name).await, Ok(Some("computed-0".to_owned())));
}

#[tokio::test]
async fn no_more_run_than_there_are_threads_and_no_more_wait_than_the_queue_has_places() {
    let pool = pool(2, 3);
    let (first, release_first) = stuck(&pool, Caller::Known);
    let (second, release_second) = stuck(&pool, Caller::Known);
    until(|| pool.running() == 2).await;
    let done = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let (pool, done) = (pool.clone(), done.clone());
            let work = move |_: &Cancellation| done.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(async move { pool.run(Caller::Known, work).await })
        })
        .collect();
    until(|| pool.0.queue.available_permits() == 0).await;
    assert_eq!(pool.run(Caller::Known, |_| ()).await, Err(PoolError::Full));
    assert_eq!(done.load(Ordering::Relaxed), 0, "they wait for a turn");
    release_first.send(()).unwrap();
    release_second.send(()).unwrap();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (Ok(true), Ok(true)));
    for one in waiting {
        assert!(one.await.unwrap().is_ok());
    }
    assert_eq!(pool.run(Caller::Known, |_| 1).await, Ok(1));
}

#[tokio::test]
async fn caller_that_hangs_up_cancels_its_computation_and_leaves_the_queue() {
    let pool = pool(1, 1);
    let (running, _never) = stuck(&pool, Caller::Known);
    until(|| pool.running() == 1).await;
    let (waiting, _never_either) = stuck(&pool, Caller::Known);
    until(|| pool.0.queue.available_permits() == 0).await;
    waiting.abort();
    until(|| pool.0.queue.available_permits() == 1).await;
    running.abort();
    // The turn is free only once the computation has ended.
    assert_eq!(pool.run(Caller::Known, |_| 1).await, Ok(1));
}

#[tokio::test(start_paused = true)]
async fn computation_that_takes_too_long_is_cancelled() {
    let longest = Duration::from_secs(30);
    let pool = Pool::new(PoolLimits { threads: NonZero::<usize>::MIN, queue: 1, longest });
    let (running, _never) = stuck(&pool, Caller::Known);
    let late = pool.run(Caller::Known, |_| ());
    let (late, running) = tokio::join!(late, running);
    assert_eq!(running.unwrap(), Err(PoolError::TooLong(longest)));
    assert!(
        matches!(late, Err(PoolError::TooLong(_)) | Ok(())),
        "it waited, or got the turn at the last moment: {late:?}"
    );
}

#[tokio::test]
async fn anonymous_callers_leave_half_of_the_pool_to_others() {
    let pool = pool(2, 4);
    let (anonymous, release) = stuck(&pool, Caller::Anonymous);
    until(|| pool.running() == 1).await;
    let waiting: Vec<_> = (0..2).map(|_| stuck(&pool, Caller::Anonymous)).collect();
    until(|| pool.0.anonymous_queue.available_permits() == 0).await;
    assert_eq!(pool.running(), 1, "the other thread is for others");
    assert_eq!(pool.run(Caller::Anonymous, |_| ()).await, Err(PoolError::Full));
    assert_eq!(pool.run(Caller::Known, |_| 1).await, Ok(1));
    release.send(()).unwrap();
    assert_eq!(anonymous.await.unwrap(), Ok(true));
    for (one, _) in waiting {
        one.abort();
    }
}

#[tokio::test]
async fn panic_ends_one_computation_and_frees_its_turn() {
    let pool = pool(1, 1);
    let panics = |_: &Cancellation| panic!("of a test");
    assert_eq!(pool.run::<()>(Caller::Known, panics).await, Err(PoolError::Panicked));
    assert_eq!(pool.run(Caller::Known, |_| 1).await, Ok(1));
}
