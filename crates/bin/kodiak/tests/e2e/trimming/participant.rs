//! A service on a machine of its own: workload, transparent proxy, and an application that calls other services.

use std::{collections::BTreeSet, fs, net::SocketAddrV4, path::Path};

use crate::harness::{Dataplane, Generator, MESH, Mesh, Sidecar, User, expect, network::Machine};

const PORT: u16 = 8080;

pub(super) struct Participant {
    pub(super) application: Generator,
    pub(super) sidecar: Sidecar,
    pub(super) inbound: SocketAddrV4,
    // After those that are there.
    _machine: Machine,
}

impl Participant {
    /// Service of this number, with its name and the other labels. The application is its workload, too.
    pub(super) async fn start(
        mesh: &Mesh,
        user: &User,
        number: u8,
        (program, test): (&Path, &str),
        labels: &[(&str, &str)],
    ) -> Self {
        let name = name(number);
        let machine = Machine::start(number + 1).await;
        let mut application = Generator::start(machine.network, program, test);
        let workload = application.serve(&name, machine.address).await;
        let user = User { machine: Some(machine.network), ..user.clone() };
        let inbound = SocketAddrV4::new(machine.address, PORT);
        let dataplane = Dataplane::in_front_of(workload, &name, &name, inbound).stored().labelled("app", &name);
        let dataplane = labels.iter().fold(dataplane, |dataplane, (key, value)| dataplane.labelled(key, value));
        mesh.store(&dataplane).await;
        let token = mesh.control_plane.token(MESH, &name, "24h").await;
        let more = ["--transparent-proxy"];
        let sidecar = Sidecar::run_as(Some(&user), &mesh.control_plane, mesh.folder(), dataplane, &token, &more);
        Self { application, sidecar, inbound, _machine: machine }
    }

    /// Services for which its proxy has a cluster.
    pub(super) async fn services(&self) -> BTreeSet<String> {
        self.sidecar.clusters().await.into_iter().filter(|name| name.starts_with(PREFIX)).collect()
    }

    /// Whether its proxy has acknowledged all that was sent.
    pub(super) async fn is_settled(&self, mesh: &Mesh) -> Result<(), String> {
        let path = format!("/meshes/{MESH}/dataplanes/{}/_status", self.sidecar.dataplane.name);
        let status = mesh.control_plane.get(&path).await.fine().json();
        expect(status["published"].is_u64() && status["published"] == status["settled"], status)
    }

    /// Resident memory of its Envoy, and the part that Envoy allocated, in KiB.
    pub(super) async fn memory(&mut self) -> (u64, u64) {
        let allocated = self.sidecar.admin("/memory").await.unwrap().fine().json();
        let allocated: u64 = allocated["allocated"].as_str().unwrap().parse().unwrap();
        let envoy = self.sidecar.process().only_child();
        let status = fs::read_to_string(format!("/proc/{envoy}/status")).unwrap();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        (resident.trim().trim_end_matches(" kB").parse().unwrap(), allocated / 1024)
    }
}

const PREFIX: &str = "svc-";

/// Name of a service, its Dataplane and its cluster.
pub(super) fn name(number: u8) -> String {
    format!("{PREFIX}{number}")
}
