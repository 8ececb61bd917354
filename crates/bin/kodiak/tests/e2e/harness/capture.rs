//! Packet capture in the network namespace of this process: plain text between proxies is counted by the kernel.

use std::{net::SocketAddr, process::Command};

use super::network::run;

const CHAIN: &str = "in";
/// First four bytes of an HTTP/1 request, an HTTP/1 response, and an HTTP/2 connection.
const PLAIN: &str = "{ 0x47455420, 0x48545450, 0x50524920 }";

/// Counts packets whose payload begins as HTTP without TLS does. One for each namespace.
pub(crate) struct Capture {
    table: [&'static str; 2],
}

impl Capture {
    pub(crate) fn start() -> Self {
        let capture = Self { table: ["ip", "capture"] };
        capture.nft("add table", &[]);
        for counter in ["plain", "control"] {
            capture.nft("add counter", &[counter]);
        }
        capture.nft("add chain", &[CHAIN, "{ type filter hook input priority -10; }"]);
        capture
    }

    /// Inbound of a proxy, where plain text must not appear in either direction.
    pub(crate) fn watch(&self, inbound: SocketAddr) {
        self.count(inbound, "plain");
    }

    /// Plain text is expected here: it shows that the capture sees it.
    pub(crate) fn watch_control(&self, workload: SocketAddr) {
        self.count(workload, "control");
    }

    /// Packets with plain text at the watched inbounds, and at the workloads.
    pub(crate) fn counted(&self) -> (u64, u64) {
        (self.read("plain"), self.read("control"))
    }

    fn count(&self, at: SocketAddr, counter: &str) {
        let (address, port) = (at.ip().to_string(), at.port().to_string());
        for [side, end] in [["daddr", "dport"], ["saddr", "sport"]] {
            let begin = ["ip", side, &address, "tcp", end, &port, "@ih,0,32", PLAIN];
            self.nft("add rule", &[&[CHAIN], &begin[..], &["counter", "name", counter]].concat());
        }
    }

    fn nft(&self, command: &str, arguments: &[&str]) {
        let command: Vec<&str> = command.split(' ').chain(self.table).chain(arguments.iter().copied()).collect();
        run("nft", &command);
    }

    fn read(&self, counter: &str) -> u64 {
        let output = Command::new("nft").args(["list", "counter"]).args(self.table).arg(counter).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut words = text.split_whitespace().skip_while(|word| *word != "packets");
        words.nth(1).and_then(|count| count.parse().ok()).unwrap_or_else(|| panic!("no count in {text:?}"))
    }
}
