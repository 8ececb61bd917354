//! Forwarder to a workload that can be closed.

use std::net::SocketAddr;

use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{eventually, workload_address};

/// Forwarder in front of a workload, so that the workload can stop and return at the same address.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    workload: SocketAddr,
    connections: JoinSet<()>,
}

impl Door {
    pub(crate) async fn open(workload: SocketAddr) -> Self {
        let listener = TcpListener::bind((workload_address(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut door = Self { address, workload, connections: JoinSet::new() };
        door.let_in(listener);
        door
    }

    /// Stops listening, and closes all connections.
    pub(crate) async fn close(&mut self) {
        self.connections.shutdown().await;
    }

    pub(crate) async fn open_again(&mut self) {
        let address = self.address;
        let bind = async || TcpListener::bind(address).await.map_err(|error| error.to_string());
        let listener = eventually("the address is free again", bind).await;
        self.let_in(listener);
    }

    fn let_in(&mut self, listener: TcpListener) {
        let workload = self.workload;
        self.connections.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut outside, _)) = listener.accept().await {
                connections.spawn(async move {
                    if let Ok(mut inside) = TcpStream::connect(workload).await {
                        let _ = copy_bidirectional(&mut outside, &mut inside).await;
                    }
                });
            }
        });
    }
}
