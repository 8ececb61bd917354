//! Harness: a mesh of real processes, and load on it.

mod addresses;
mod capture;
pub(crate) mod cluster;
mod control_plane;
mod dataplane;
mod door;
mod generator;
mod http;
mod kept;
mod load;
mod loss;
mod mesh;
pub(crate) mod network;
mod process;
mod prometheus;
mod service;
mod sidecar;
mod stock;
mod tls;

use std::time::{Duration, Instant};

pub(crate) use capture::Capture;
pub(crate) use control_plane::{ControlPlane, Setup};
pub(crate) use dataplane::Dataplane;
pub(crate) use door::Door;
pub(crate) use generator::{Answered, Counts, Generator, HttpVersion};
pub(crate) use http::{Answer, get, get_with};
pub(crate) use kept::Kept;
pub(crate) use load::Load;
pub(crate) use loss::Loss;
pub(crate) use mesh::{Mesh, Mtls, path, until_answered};
pub(crate) use network::Network;
pub(crate) use process::Process;
pub(crate) use prometheus::Prometheus;
pub(crate) use service::{Manner, Service};
pub(crate) use sidecar::{Sidecar, User, workload_address};
pub(crate) use stock::StockSidecar;
pub(crate) use tls::Tls;

/// Its name is part of what certificates say, so it is not the one that exists anyway.
pub(crate) const MESH: &str = "shop";
/// Generous timeout, for busy machines.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// How often to look.
const PAUSE: Duration = Duration::from_millis(20);

/// Waits until `look` succeeds; the last failure is reported after the timeout.
pub(crate) async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let started = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(started.elapsed() < PATIENCE, "not after {PATIENCE:?}: {what}: {seen}"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// For [`eventually`]: success, or the current state.
pub(crate) fn expect(fine: bool, seen: impl std::fmt::Debug) -> Result<(), String> {
    if fine { Ok(()) } else { Err(format!("{seen:?}")) }
}
