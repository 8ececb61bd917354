//! The threads of a pool.

use std::{
    num::NonZero,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// They end when this is dropped, each after its current job.
pub(crate) struct Threads(Mutex<Sender<Job>>);

impl Threads {
    pub(crate) fn start(count: NonZero<usize>) -> Self {
        let (send, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for n in 0..count.get() {
            let jobs = jobs.clone();
            let thread = thread::Builder::new().name(format!("computed-{n}"));
            thread.spawn(move || work(&jobs)).expect("the system has threads for a few computations");
        }
        Self(Mutex::new(send))
    }

    /// Callers hold a turn, and there is one for each thread, so a job never waits for long.
    pub(crate) fn run(&self, job: Job) {
        let send = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        send.send(job).expect("threads end after their pool");
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        // The panic is logged where it happens, and the caller gets an error.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
