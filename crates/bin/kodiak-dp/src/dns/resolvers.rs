//! Those who know the other names: the nameservers of the machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message;

/// As many as the C library asks.
const MOST: usize = 3;
const PORT: u16 = 53;
/// For each nameserver; then the next one is asked.
const PATIENCE: Duration = Duration::from_secs(3);
/// The largest answer that is passed on over UDP. Clients that take more say so, and get what the nameserver sent.
const LARGEST_DATAGRAM: usize = 65_535;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Udp,
    Tcp,
}

/// The nameservers of a `resolv.conf`, but not ourselves.
pub(super) async fn read(resolv_conf: &Path, ourselves: SocketAddr) -> io::Result<Vec<SocketAddr>> {
    let text = tokio::fs::read(resolv_conf).await?;
    let mut servers = parse(&String::from_utf8_lossy(&text));
    servers.retain(|server| *server != ourselves);
    Ok(servers)
}

fn parse(text: &str) -> Vec<SocketAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let server = words.next().filter(|word| *word == "nameserver").and(words.next())?;
        address(server)
    });
    servers.take(MOST).collect()
}

/// An address, on the usual port or, as some write it, with a port.
fn address(text: &str) -> Option<SocketAddr> {
    let usual = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, PORT));
    usual.or_else(|_| text.parse()).ok()
}

/// The first answer that one of them gives to this message.
pub(super) async fn forward(servers: &[SocketAddr], request: &[u8], transport: Transport) -> Option<Vec<u8>> {
    for server in servers {
        let asked = match transport {
            Transport::Udp => timeout(PATIENCE, ask_by_udp(*server, request)).await,
            Transport::Tcp => timeout(PATIENCE, ask_by_tcp(*server, request)).await,
        };
        match asked {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => tracing::debug!(%server, %error, "A nameserver cannot be asked."),
            Err(_) => tracing::debug!(%server, "A nameserver does not answer."),
        }
    }
    None
}

/// From a port of its own, so that others cannot guess where to send a forged answer.
async fn ask_by_udp(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let any: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).await?;
    socket.connect(server).await?;
    socket.send(request).await?;
    let mut buffer = vec![0; LARGEST_DATAGRAM];
    loop {
        let length = socket.recv(&mut buffer).await?;
        if message::answers(&buffer[..length], request) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn ask_by_tcp(server: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    write(&mut stream, request).await?;
    let answer = read_message(&mut stream).await?;
    if message::answers(&answer, request) { Ok(answer) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// One message with its length before it.
pub(super) async fn read_message(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let length = stream.read_u16().await?;
    let mut message = vec![0; usize::from(length)];
    stream.read_exact(&mut message).await?;
    Ok(message)
}

pub(super) async fn write(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes(), message].concat()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nameservers_are_read() {
        for (text, expected) in [
            ("nameserver 10.0.0.2\nsearch x\n", &["10.0.0.2:53"][..]),
            ("# nameserver 1.1.1.1\n nameserver\tfd00::1 # x\n", &["[fd00::1]:53"]),
            ("nameserver 127.0.0.1:5353\nnameserver [::1]:54", &["127.0.0.1:5353", "[::1]:54"]),
            ("nameserver one\nnameserver\nnameservers 1.1.1.1\nnameserver fe80::1%eth0", &[]),
            (&"nameserver 10.0.0.1\n".repeat(5), &["10.0.0.1:53"; 3]),
            ("", &[]),
        ] {
            let expected: Vec<SocketAddr> = expected.iter().map(|server| server.parse().unwrap()).collect();
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
