//! Forwards access logs from a named pipe to TCP servers, and counts those that are about callers without mTLS.
//!
//! Envoy writes lines of JSON, `{"address": …, "message": …}`, into the pipe. Each address has a bounded buffer and a task of
//! its own. The pipe is always read, however slow the servers are: Envoy must never wait for them. Lines that do not fit
//! into the buffer are dropped and counted.

mod line;
mod sink;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{CWD, Mode, mkfifoat};
use serde::Serialize;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::task::JoinSet;

use crate::plaintext_callers::{self, PlaintextCallers};
use line::{Line, Splitter};
use sink::Sink;

/// Each address has a task and a buffer, and addresses come from policies.
const MAX_ADDRESSES: usize = 64;
const READ_BYTES: usize = 64 << 10;
/// Time between two looks at whether everything was forwarded.
const DRAIN_PAUSE: Duration = Duration::from_millis(20);

/// A pipe, and the servers that its lines were forwarded to.
pub(crate) struct AccessLogs {
    pipe: pipe::Receiver,
    counts: AccessLogCounts,
    plaintext_callers: PlaintextCallers,
}

/// Counters of all addresses, for the status endpoint.
#[derive(Clone, Default)]
pub(crate) struct AccessLogCounts(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    sinks: BTreeMap<String, Arc<Sink>>,
    /// Lines without an address, and those to too many addresses.
    invalid: u64,
    /// Bytes read from the pipe.
    read: u64,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AccessLogStatus {
    pub(crate) backends: Vec<BackendStatus>,
    pub(crate) invalid_lines: u64,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct BackendStatus {
    pub(crate) address: String,
    pub(crate) connected: bool,
    pub(crate) forwarded_lines: u64,
    pub(crate) dropped_lines: u64,
    pub(crate) buffered_bytes: usize,
}

impl AccessLogs {
    /// Creates the pipe. It is open for reading and writing as long as this process runs: opening it never blocks Envoy, and
    /// reading it never ends.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR)?;
        let pipe = pipe::OpenOptions::new().read_write(true).open_receiver(path)?;
        Ok(Self { pipe, counts: AccessLogCounts::default(), plaintext_callers: PlaintextCallers::default() })
    }

    pub(crate) fn counts(&self) -> AccessLogCounts {
        self.counts.clone()
    }

    pub(crate) fn plaintext_callers(&self) -> PlaintextCallers {
        self.plaintext_callers.clone()
    }

    pub(crate) async fn forward(mut self) {
        let mut tasks = JoinSet::new();
        let mut splitter = Splitter::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let length = match self.pipe.read(&mut buffer).await {
                Ok(length) => length,
                Err(error) => {
                    tracing::error!(%error, "failed to read the access log pipe");
                    return;
                }
            };
            for line in splitter.push(&buffer[..length]) {
                self.dispatch(line, &mut tasks);
            }
            self.counts.lock().read += length as u64;
        }
    }

    fn dispatch(&self, line: Option<Line>, tasks: &mut JoinSet<()>) {
        let is_caller = |line: &Line| line.address == plaintext_callers::ADDRESS;
        let counted = line.as_ref().filter(|line| is_caller(line)).map(|line| self.count_caller(&line.message));
        if counted == Some(true) {
            return;
        }
        let mut shared = self.counts.lock();
        let Some(Line { address, message }) = line.filter(|line| !is_caller(line)) else {
            shared.invalid += 1;
            return;
        };
        let sink = match shared.sinks.get(&address) {
            Some(sink) => Arc::clone(sink),
            None if shared.sinks.len() >= MAX_ADDRESSES => {
                if shared.invalid == 0 {
                    tracing::warn!(address, "too many access log backends, dropping lines of further ones");
                }
                shared.invalid += 1;
                return;
            }
            None => {
                let sink = Arc::new(Sink::new(address.clone()));
                tasks.spawn(sink::run(Arc::clone(&sink)));
                shared.sinks.insert(address, Arc::clone(&sink));
                sink
            }
        };
        drop(shared);
        sink.push(message);
    }

    fn count_caller(&self, message: &[u8]) -> bool {
        str::from_utf8(message).is_ok_and(|message| self.plaintext_callers.count(message))
    }
}

impl AccessLogCounts {
    pub(crate) fn status(&self) -> AccessLogStatus {
        let shared = self.lock();
        AccessLogStatus {
            backends: shared.sinks.values().map(|sink| sink.status()).collect(),
            invalid_lines: shared.invalid,
        }
    }

    /// Waits until all lines are forwarded to the servers that are reachable, at most so long.
    pub(crate) async fn drained(&self, patience: Duration) {
        let drained = async {
            let mut before = None;
            loop {
                let read = self.lock().read;
                let pending = self.status().backends.iter().any(|sink| sink.connected && sink.buffered_bytes > 0);
                if before == Some(read) && !pending {
                    return;
                }
                before = Some(read);
                tokio::time::sleep(DRAIN_PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(patience, drained).await;
    }

    /// Counters are consistent even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
