//! Ports for the listeners of Envoy that nobody else can get before Envoy does.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// A port of 127.0.0.1 that the system chose. The socket never listens, so it gets no connections, but as long as it is
/// there the system gives the port to nobody who does not ask to share it. Envoy does, and is of the same user.
pub(super) struct Reserved {
    _socket: TcpSocket,
    address: SocketAddr,
}

impl Reserved {
    pub(super) fn new() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseport(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        let address = socket.local_addr()?;
        Ok(Self { _socket: socket, address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn only_who_shares_gets_the_port_and_then_all_its_connections() {
        let reserved = Reserved::new().unwrap();
        let taken = TcpListener::bind(reserved.address()).await.unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);

        let envoy = TcpSocket::new_v4().unwrap();
        envoy.set_reuseport(true).unwrap();
        envoy.bind(reserved.address()).unwrap();
        let listener = envoy.listen(16).unwrap();
        for _ in 0..16 {
            let (connected, accepted) = tokio::join!(TcpStream::connect(reserved.address()), listener.accept());
            assert_eq!(connected.unwrap().local_addr().unwrap(), accepted.unwrap().1);
        }
    }

    #[tokio::test]
    async fn no_two_are_the_same() {
        let all: Vec<_> = (0..64).map(|_| Reserved::new().unwrap()).collect();
        let mut ports: Vec<_> = all.iter().map(Reserved::port).collect();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), all.len());
    }
}
