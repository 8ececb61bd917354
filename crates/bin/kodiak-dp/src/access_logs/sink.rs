//! One TCP server that receives access logs.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::BackendStatus;

/// Largest buffer while the server is slow or unreachable.
pub(super) const MAX_BUFFER: usize = 1 << 20;
/// Lines are written together, up to this size.
const BATCH: usize = 64 << 10;
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// Time for the server to accept a batch; after that it counts as unreachable.
const WRITE_TIME: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

pub(super) struct Sink {
    address: String,
    queue: Mutex<Queue>,
    pushed: Notify,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Bytes>,
    bytes: usize,
    connected: bool,
    forwarded: u64,
    dropped: u64,
    /// `dropped` when the buffer was last not full.
    dropped_before: u64,
}

impl Sink {
    pub(super) fn new(address: String) -> Self {
        Self { address, queue: Mutex::default(), pushed: Notify::new() }
    }

    /// Drops the line if the buffer is full.
    pub(super) fn push(&self, line: Bytes) {
        let mut queue = self.lock();
        if queue.bytes + line.len() > MAX_BUFFER {
            if queue.dropped == queue.dropped_before {
                let buffered = queue.bytes;
                tracing::warn!(address = self.address, buffered, "access log buffer is full, dropping lines");
            }
            queue.dropped += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        drop(queue);
        self.pushed.notify_one();
    }

    pub(super) fn status(&self) -> BackendStatus {
        let queue = self.lock();
        BackendStatus {
            address: self.address.clone(),
            connected: queue.connected,
            forwarded_lines: queue.forwarded,
            dropped_lines: queue.dropped,
            buffered_bytes: queue.bytes,
        }
    }

    /// The oldest lines. They stay in the buffer until they are written.
    fn batch(&self) -> (Vec<u8>, usize) {
        let queue = self.lock();
        let (mut batch, mut count) = (Vec::new(), 0);
        for line in &queue.lines {
            if count > 0 && batch.len() + line.len() > BATCH {
                break;
            }
            batch.extend_from_slice(line);
            count += 1;
        }
        (batch, count)
    }

    fn written(&self, count: usize) {
        let mut queue = self.lock();
        for line in queue.lines.drain(..count).collect::<Vec<_>>() {
            queue.bytes -= line.len();
        }
        queue.forwarded += count as u64;
        let dropped = queue.dropped - queue.dropped_before;
        if dropped > 0 {
            queue.dropped_before = queue.dropped;
            tracing::warn!(address = self.address, dropped, "access log buffer has space again");
        }
    }

    fn set_connected(&self, connected: bool) {
        self.lock().connected = connected;
    }

    /// Counters are consistent even if a thread panicked.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Connects again whenever the connection ends, with growing pauses.
pub(super) async fn run(sink: Arc<Sink>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match connect(&sink.address).await {
            Ok(stream) => {
                tracing::info!(address = sink.address, "connected to access log backend");
                sink.set_connected(true);
                pause = FIRST_PAUSE;
                let error = write(&sink, stream).await;
                sink.set_connected(false);
                error
            }
            Err(error) => error,
        };
        tracing::warn!(address = sink.address, %error, ?pause, "access log backend is unreachable, connecting again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn connect(address: &str) -> io::Result<TcpStream> {
    let address = address.strip_prefix("tcp://").unwrap_or(address);
    tokio::time::timeout(CONNECT_TIME, TcpStream::connect(address)).await?
}

/// Returns why the connection ended.
async fn write(sink: &Sink, stream: TcpStream) -> io::Error {
    let (mut reader, mut writer) = stream.into_split();
    let mut ignored = [0; 1024];
    loop {
        let (batch, count) = sink.batch();
        // The server sends nothing, but this shows that it closed the connection before lines are lost in it.
        let closed = async {
            loop {
                match reader.read(&mut ignored).await {
                    Ok(0) => return io::Error::from(io::ErrorKind::ConnectionReset),
                    Ok(_) => (),
                    Err(error) => return error,
                }
            }
        };
        let written = async {
            if count == 0 {
                sink.pushed.notified().await;
                return Ok(());
            }
            tokio::time::timeout(WRITE_TIME, writer.write_all(&batch)).await?
        };
        tokio::select! {
            biased;
            error = closed => return error,
            written = written => match written {
                Ok(()) => sink.written(count),
                Err(error) => return error,
            },
        }
    }
}
