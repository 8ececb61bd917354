//! All processes of the demo: started and stopped together, with nothing left behind.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use futures_util::FutureExt as _;
use futures_util::future::{join_all, select_all, try_join_all};
use hyper::{StatusCode, Uri};
use kodiak_client::{Address, Client, Endpoint, ResourceId};
use kodiak_cp::config::StoreType;
use kodiak_cp::{Config, ControlPlane};
use kodiak_kinds::kinds;
use kodiak_model::GoDuration;
use tempfile::TempDir;

use super::call::{Caller, Connection};
use super::flow::{Expect, Flow};
use super::graph::{EDGES, Edge, FORBIDDEN, Instance, JOURNEY, SERVICES, called_by, instances};
use super::guide::Guide;
use super::machines::{Machine, Network};
use super::ports::Reserved;
use super::proxy::{CA_FILE, Common, DemoProxy};
use super::resources::{MESH, Ports, documents, identity};
use super::service::DemoService;

/// Time for a call to succeed for the first time.
const PATIENCE: Duration = Duration::from_mins(1);
const PAUSE: Duration = Duration::from_millis(50);
/// Interval of traffic observation.
const REPORT_INTERVAL: GoDuration = GoDuration::from_secs(1);

pub(super) struct Stage {
    // In the order in which they are dropped.
    proxies: Vec<DemoProxy>,
    /// In the order of the instances.
    services: Vec<DemoService>,
    layout: Layout,
    pub(super) api: Client,
    /// For a scenario that follows a guide.
    pub(super) guide: Option<Guide>,
    pub(super) control_plane: ControlPlane,
    _folder: TempDir,
}

/// How services call each other.
enum Layout {
    /// By outbounds, on ports of 127.0.0.1.
    Outbounds(Vec<Seat>),
    /// By name, through transparent proxies.
    Names { _network: Box<Network>, _machines: Vec<Machine> },
}

/// Instance and the reserved ports of its Envoy.
struct Seat {
    instance: Instance,
    inbound: Reserved,
    outbounds: Vec<(&'static str, Reserved)>,
}

impl Stage {
    /// Returns when every proxy is ready. Calls `say` at each step. Dropping the future leaves nothing behind.
    pub(super) async fn start(envoy: &Path, timeout: Option<Duration>, say: impl Fn(&str)) -> anyhow::Result<Self> {
        let folder = folder()?;
        let control_plane = ControlPlane::start(config(folder.path(), Ipv4Addr::LOCALHOST)).await?;
        let api = api(&control_plane, timeout)?;
        say("Applying a mesh with mutual TLS and a permission for each call.");
        for (kind, name, document) in documents() {
            let kind = kinds().by_name(kind).expect("kinds of the demo are known");
            api.put(ResourceId { kind, mesh: MESH, name: &name }, document.to_string().into()).await?;
        }

        let seats = instances().into_iter().map(Seat::new).collect::<Result<Vec<_>, _>>();
        let seats = seats.context("there are no free ports")?;
        say(&format!(
            "Starting {} services, one of them with two instances, and an Envoy for each instance.",
            SERVICES.len()
        ));
        let services = try_join_all(seats.iter().map(Seat::start_service)).await?;
        let common = common(envoy, Ipv4Addr::LOCALHOST, &control_plane, folder.path(), &api)?;
        let proxies =
            try_join_all(seats.iter().zip(&services).map(|(seat, service)| seat.start_proxy(service, &common)));
        let proxies = proxies.await?;
        let layout = Layout::Outbounds(seats);
        let mut stage = Self { proxies, services, layout, api, guide: None, control_plane, _folder: folder };
        let caller = Caller::new();
        try_join_all(stage.proxies.iter_mut().map(|proxy| proxy.ready(&caller))).await?;
        Ok(stage)
    }

    /// The same with a machine for each instance, and the mesh of the guide.
    pub(super) async fn start_redirected(
        envoy: &Path,
        timeout: Option<Duration>,
        say: impl Fn(&str),
    ) -> anyhow::Result<Self> {
        let network = Network::create().await?;
        let folder = folder()?;
        let mut config = config(folder.path(), network.host());
        config.traffic.observe = true;
        (config.traffic.report_interval, config.traffic.flush_interval) = (REPORT_INTERVAL, REPORT_INTERVAL);
        let control_plane = ControlPlane::start(config).await?;
        let api = api(&control_plane, timeout)?;
        let address = control_plane.http.context("the control plane has no API")?;
        let guide = Guide::open(folder.path(), &format!("http://{address}"))?;
        say("Applying a mesh with mutual TLS, in which everybody may call everybody.");
        guide.run("Before you start").await?;

        say(&format!(
            "Starting {} services, one of them with two instances, each with an Envoy in a network namespace.",
            SERVICES.len()
        ));
        let common = common(envoy, network.host(), &control_plane, folder.path(), &api)?;
        let (mut machines, mut services, mut proxies) = (Vec::new(), Vec::new(), Vec::new());
        for (number, instance) in (0..).zip(instances()) {
            let machine = network.machine(number).await?;
            services.push(DemoService::start_on(&machine, &instance).await?);
            proxies.push(DemoProxy::start_on(&machine, &instance, &common).await?);
            machines.push(machine);
        }
        let layout = Layout::Names { _network: Box::new(network), _machines: machines };
        Ok(Self { proxies, services, layout, api, guide: Some(guide), control_plane, _folder: folder })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.proxies.iter().map(|proxy| proxy.name.as_str())
    }

    /// Address of the application of an instance.
    pub(super) fn application(&self, instance: &str) -> Option<SocketAddr> {
        self.services.iter().find(|service| service.name == instance).map(|service| service.address)
    }

    /// One flow per allowed call, then the forbidden call, if nothing else allows it, then the call through several
    /// services. `tolerated` are statuses that are no failures.
    pub(super) fn flows(&self, tolerated: &'static [u16]) -> anyhow::Result<Vec<Flow>> {
        let mut flows = Vec::new();
        for edge in EDGES {
            flows.push(Flow { uris: self.calls(edge)?, expect: Expect::SuccessAs(identity(edge.from)), tolerated });
        }
        if let Layout::Outbounds(_) = self.layout {
            let expect = Expect::Status(StatusCode::FORBIDDEN);
            flows.push(Flow { uris: self.calls(&FORBIDDEN)?, expect, tolerated: &[] });
        }
        let expect = Expect::SuccessAs(identity(JOURNEY[JOURNEY.len() - 2]));
        flows.push(Flow { uris: self.through(JOURNEY[0], &JOURNEY[1..])?, expect, tolerated });
        Ok(flows)
    }

    /// Outbounds of the proxies of the caller, or the caller itself, which is asked to call.
    fn calls(&self, edge: &Edge) -> anyhow::Result<Vec<Uri>> {
        let Layout::Outbounds(seats) = &self.layout else { return self.through(edge.from, &[edge.to]) };
        let callers = seats.iter().filter(|seat| seat.instance.service == edge.from);
        let outbounds = callers.flat_map(|seat| seat.outbounds.iter().filter(|(to, _)| *to == edge.to));
        outbounds.map(|(_, port)| Ok(format!("http://{}/", port.address()).parse()?)).collect()
    }

    /// The first application is called directly: it has no caller in the mesh.
    fn through(&self, first: &str, next: &[&str]) -> anyhow::Result<Vec<Uri>> {
        let path = format!("/via/{}", next.join("/via/"));
        let instances = instances();
        let services = instances.iter().zip(&self.services).filter(|(instance, _)| instance.service == first);
        services.map(|(_, service)| Ok(format!("http://{}{path}", service.address).parse()?)).collect()
    }

    /// Waits until each flow gets the expected response from each of its addresses.
    pub(super) async fn settle(&self, flows: &[Flow], caller: &Caller) -> anyhow::Result<()> {
        let each = flows.iter().flat_map(|flow| flow.uris.iter().map(|uri| self.first_answer(flow, uri, caller)));
        try_join_all(each).await.map(drop)
    }

    async fn first_answer(&self, flow: &Flow, uri: &Uri, caller: &Caller) -> anyhow::Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let answer = caller.get(uri.clone(), Connection::Fresh).await;
            let Err(failure) = answer.and_then(|answer| flow.expect.check(&answer)) else { return Ok(()) };
            if tokio::time::Instant::now() > deadline {
                let troubles = self.troubles().join("; ");
                anyhow::bail!("{uri} does not answer as it should after {PATIENCE:?}: {failure}; {troubles}");
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// ACKs and NACKs of the proxies.
    fn troubles(&self) -> Vec<String> {
        let connected = self.control_plane.registry.connected();
        let mut troubles = vec![format!("{} proxies are connected", connected.len())];
        for proxy in connected {
            let rejected = proxy.types.iter().filter_map(|status| status.last_error.as_deref());
            let all = rejected.chain(proxy.faults.iter().map(String::as_str));
            troubles.extend(all.map(|trouble| format!("{}: {trouble}", proxy.key.name)));
        }
        troubles
    }

    /// Waits until a process exits unexpectedly.
    pub(super) async fn ended(&mut self) -> anyhow::Error {
        let proxies = self.proxies.iter_mut().map(|proxy| proxy.ended().boxed());
        let services = self.services.iter_mut().map(|service| service.ended().boxed());
        select_all(proxies.chain(services)).await.0
    }

    /// Stops all processes in order.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        let Self { proxies, services, layout, api: _, guide: _, control_plane, _folder: folder } = self;
        join_all(proxies.into_iter().map(DemoProxy::stop)).await;
        join_all(services.into_iter().map(DemoService::stop)).await;
        drop(layout);
        control_plane.stop().await?;
        folder.close().context("cannot remove the folder of the demo")
    }
}

impl Seat {
    fn new(instance: Instance) -> std::io::Result<Self> {
        let outbounds =
            called_by(instance.service).map(|to| Ok((to, Reserved::new()?))).collect::<std::io::Result<_>>()?;
        Ok(Self { instance, inbound: Reserved::new()?, outbounds })
    }

    fn ports_of_outbounds(&self) -> Vec<(&'static str, u16)> {
        self.outbounds.iter().map(|(to, reserved)| (*to, reserved.port())).collect()
    }

    async fn start_service(&self) -> anyhow::Result<DemoService> {
        DemoService::start(&self.instance.name, &self.ports_of_outbounds()).await
    }

    async fn start_proxy(&self, service: &DemoService, common: &Common<'_>) -> anyhow::Result<DemoProxy> {
        let (inbound, outbounds) = (self.inbound.port(), self.ports_of_outbounds());
        let ports = Ports { inbound, application: service.address.port(), outbounds };
        DemoProxy::start(&self.instance, &ports, common).await
    }
}

fn folder() -> anyhow::Result<TempDir> {
    tempfile::Builder::new().prefix("kodiak-demo-").tempdir().context("cannot create a folder")
}

fn api(control_plane: &ControlPlane, timeout: Option<Duration>) -> anyhow::Result<Client> {
    let address = control_plane.http.context("the control plane has no API")?;
    Ok(Client::new(&Endpoint::anonymous(Address::parse(&format!("http://{address}"))?), timeout)?)
}

fn common<'a>(
    envoy: &'a Path,
    host: Ipv4Addr,
    control_plane: &ControlPlane,
    folder: &'a Path,
    api: &'a Client,
) -> anyhow::Result<Common<'a>> {
    let ca_pem = std::fs::read(folder.join(CA_FILE)).context("the control plane has no certificate")?;
    let control_plane = format!("https://{host}:{}", control_plane.proxies.port());
    Ok(Common { envoy, control_plane, ca_pem, folder, api })
}

/// In-memory store, on 127.0.0.1 and `host` only, on ports that the system chooses.
fn config(folder: &Path, host: Ipv4Addr) -> Config {
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let mut config = Config::default();
    folder.clone_into(&mut config.general.work_dir);
    config.store.store_type = StoreType::Memory;
    config.api_server.http.port = 0;
    config.api_server.https.enabled = false;
    (config.dp_server.interface, config.dp_server.port) = (host.into(), 0);
    (config.diagnostics.interface, config.diagnostics.server_port) = (here, 0);
    config.diagnostics.health_port = 0;
    config.monitoring_assignment_server.port = 0;
    // The mesh is applied with mutual TLS from the beginning.
    config.defaults.skip_mesh_creation = true;
    config
}
