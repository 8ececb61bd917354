//! The server: UDP and TCP on one port.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::asked::{Asked, Directory};
use super::message::{self, Question, TCP_LIMIT, UDP_LIMIT};
use super::refresh::{Knowledge, refresh};
use super::resolvers::{self, Transport, forward, read_message};
use super::table::of_type;

/// Queries that wait for a nameserver; further ones are answered with SERVFAIL.
const MAX_WAITING: usize = 512;
const MAX_CONNECTIONS: usize = 128;
/// Longest query over UDP; longer ones are truncated and rejected.
const LARGEST_REQUEST: usize = 4096;
/// Time for the next query of a connection.
const IDLE_TIME: Duration = Duration::from_secs(10);
/// Delay after a failure to receive or to accept, mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);
/// Ports are chosen for UDP, and must be free for TCP too.
const ATTEMPTS: usize = 16;

#[derive(Clone)]
pub(crate) struct DnsSettings {
    /// Socket of Envoy with the DNS names.
    pub(crate) records: PathBuf,
    pub(crate) resolv_conf: PathBuf,
    /// Whether IPv6 addresses are answered.
    pub(crate) ipv6: bool,
    /// Asked for names of the mesh that are not in the table.
    pub(crate) directory: Arc<dyn Directory>,
}

pub(crate) struct Server {
    udp: Arc<UdpSocket>,
    tcp: TcpListener,
    address: SocketAddr,
    settings: DnsSettings,
}

impl Server {
    pub(crate) async fn bind(address: SocketAddr, settings: DnsSettings) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let udp = UdpSocket::bind(address).await?;
            let bound = udp.local_addr()?;
            match TcpListener::bind(bound).await {
                Ok(tcp) => return Ok(Self { udp: Arc::new(udp), tcp, address: bound, settings }),
                Err(_) if address.port() == 0 && attempt < ATTEMPTS => attempt += 1,
                Err(error) => return Err(error),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers queries, forever.
    pub(crate) async fn serve(self) {
        let (sender, knowledge) = watch::channel(Knowledge::default());
        let asked = Asked::new(Arc::clone(&self.settings.directory));
        let resolver = Resolver { knowledge, asked, ipv6: self.settings.ipv6 };
        tokio::join!(
            refresh(self.settings, self.address, sender),
            serve_udp(self.udp, resolver.clone()),
            serve_tcp(self.tcp, resolver),
        );
    }
}

#[derive(Clone)]
struct Resolver {
    knowledge: watch::Receiver<Knowledge>,
    asked: Asked,
    ipv6: bool,
}

impl Resolver {
    /// Response from the table of names, if it has the name.
    fn answer(&self, request: &[u8], limit: usize) -> Option<Vec<u8>> {
        let question = Question::read(request)?;
        let table = Arc::clone(&self.knowledge.borrow().table);
        let addresses = table.lookup(&question.name, question.kind, self.ipv6)?;
        Some(question.answer(&addresses, table.ttl, limit))
    }

    /// Response of the control plane or of a nameserver, or SERVFAIL; `None` for a message that is no query.
    async fn ask_others(&self, request: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let failure = message::failure(request)?;
        if let Some(answer) = self.ask_control_plane(request, transport).await {
            return Some(answer);
        }
        let nameservers = Arc::clone(&self.knowledge.borrow().nameservers);
        Some(forward(&nameservers, request, transport).await.unwrap_or(failure))
    }

    /// Response with the address of a destination that this proxy may not call.
    async fn ask_control_plane(&self, request: &[u8], transport: Transport) -> Option<Vec<u8>> {
        let question = Question::read(request)?;
        let table = Arc::clone(&self.knowledge.borrow().table);
        if !table.is_asked(&question.name) {
            return None;
        }
        let address = self.asked.address(&question.name).await?;
        let addresses = [IpAddr::V4(address), IpAddr::V6(address.to_ipv6_mapped())];
        let limit = match transport {
            Transport::Udp => UDP_LIMIT,
            Transport::Tcp => TCP_LIMIT,
        };
        Some(question.answer(&of_type(&addresses, question.kind, self.ipv6), table.ttl, limit))
    }
}

async fn serve_udp(socket: Arc<UdpSocket>, resolver: Resolver) {
    let mut waiting = JoinSet::new();
    let mut buffer = vec![0; LARGEST_REQUEST];
    loop {
        let received = socket.recv_from(&mut buffer).await;
        while waiting.try_join_next().is_some() {}
        let (length, client) = match received {
            Ok(received) => received,
            Err(error) => {
                tracing::debug!(%error, "failed to receive a DNS query");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let request = &buffer[..length];
        if let Some(answer) = resolver.answer(request, UDP_LIMIT) {
            reply(&socket, client, &answer).await;
        } else if waiting.len() >= MAX_WAITING {
            if let Some(failure) = message::failure(request) {
                reply(&socket, client, &failure).await;
            }
        } else {
            let (socket, resolver, request) = (Arc::clone(&socket), resolver.clone(), request.to_vec());
            waiting.spawn(async move {
                if let Some(answer) = resolver.ask_others(&request, Transport::Udp).await {
                    reply(&socket, client, &answer).await;
                }
            });
        }
    }
}

async fn reply(socket: &UdpSocket, client: SocketAddr, answer: &[u8]) {
    if let Err(error) = socket.send_to(answer, client).await {
        tracing::debug!(%error, "failed to send a DNS response");
    }
}

async fn serve_tcp(listener: TcpListener, resolver: Resolver) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
            continue;
        }
        match listener.accept().await {
            Ok((stream, _)) => {
                let resolver = resolver.clone();
                connections.spawn(async move {
                    if let Err(error) = connection(stream, &resolver).await {
                        tracing::debug!(%error, "DNS connection closed with an error");
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "failed to accept a DNS connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(mut stream: TcpStream, resolver: &Resolver) -> io::Result<()> {
    loop {
        let request = tokio::time::timeout(IDLE_TIME, read_message(&mut stream)).await??;
        let answer = match resolver.answer(&request, TCP_LIMIT) {
            Some(answer) => Some(answer),
            None => resolver.ask_others(&request, Transport::Tcp).await,
        };
        let Some(answer) = answer else { return Ok(()) };
        tokio::time::timeout(IDLE_TIME, resolvers::write(&mut stream, &answer)).await??;
    }
}

#[cfg(test)]
mod tests;
