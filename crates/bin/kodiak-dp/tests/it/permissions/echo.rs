//! A server that sends back what it gets.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

pub(super) struct Echo {
    port: u16,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Echo {
    pub(super) fn start() -> Self {
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
                thread::spawn(move || serve(&stream.unwrap()));
            }
        });
        Self { port, ending, thread: Some(thread) }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }
}

fn serve(stream: &TcpStream) {
    let (mut reader, mut writer) = (stream, stream);
    // A client that is gone needs no answer.
    let _ = io::copy(&mut reader, &mut writer);
    let _ = stream.shutdown(Shutdown::Both);
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
        // Wakes the loop.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
