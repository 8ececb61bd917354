//! A server that answers each HTTP request with what it got, and whoever speaks TLS with its name.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The first byte of who wants to speak TLS.
const TLS_HANDSHAKE: u8 = 0x16;

pub(super) struct Backend {
    port: u16,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backend {
    /// The name is the first line of its answers.
    pub(super) fn start(name: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ending = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&ending);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ends.load(Ordering::Relaxed) {
                    return;
                }
                // Each ends with its connection.
                thread::spawn(move || serve(name, stream.unwrap()));
            }
        });
        Self { port, ending, thread: Some(thread) }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

/// Requests have no bodies here, so each ends with an empty line.
fn serve(name: &str, mut stream: TcpStream) {
    let mut got = Vec::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        got.extend_from_slice(&part[..length]);
        if got[0] == TLS_HANDSHAKE {
            let _ = stream.write_all(name.as_bytes());
            return;
        }
        if got.ends_with(b"\r\n\r\n") {
            let body = [name.as_bytes(), b"\r\n", &got].concat();
            let head = "x-r-server: backend\r\nx-r-secret: backend\r\nx-r-both: backend";
            let head = format!("HTTP/1.1 200 OK\r\n{head}\r\ncontent-length: {}\r\n\r\n", body.len());
            // A client that is gone needs no answer.
            let _ = stream.write_all(&[head.as_bytes(), &body].concat());
            got.clear();
        }
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        // Wakes the loop.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
