//! Proxies that get only the destinations that permissions let them call.

mod batches;
mod explained;
mod guide;
mod migration;
mod participant;

use std::{fs, net::Ipv4Addr};

use guide::Guide;
use participant::Participant;

use crate::harness::{
    Mesh, Setup,
    network::{self, run},
};

/// Address of the control plane for proxies.
const HOST: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const ENVIRONMENT: &[(&str, &str)] = &[
    ("KODIAK_TRAFFIC_OBSERVE", "true"),
    ("KODIAK_TRAFFIC_REPORT_INTERVAL", "1s"),
    ("KODIAK_TRAFFIC_FLUSH_INTERVAL", "1s"),
];

/// A control plane that observes traffic and has no mesh yet, for proxies on machines of their own.
async fn observing_mesh() -> Mesh {
    run("ip", &["link", "set", "lo", "up"]);
    run("ip", &["address", "add", &format!("{HOST}/32"), "dev", "lo"]);
    // Between the machines.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    let setup = Setup { host: HOST, environment: ENVIRONMENT, ..Setup::default() };
    let mesh = Mesh::without_mesh(setup).await.expect("there is an Envoy");
    network::prepare(&mesh);
    mesh
}
