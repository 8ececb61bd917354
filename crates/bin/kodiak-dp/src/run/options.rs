//! Options of the sidecar process.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything about one proxy and its Envoy.
#[derive(Debug, Clone)]
pub struct Options {
    /// `https://host:port`
    pub control_plane: String,
    /// PEM of the CAs that are trusted for the control plane.
    pub ca_pem: Vec<u8>,
    pub proxy: Proxy,
    pub token: Option<Token>,
    /// The program.
    pub envoy: PathBuf,
    /// Worker threads of Envoy; one for each core by default.
    pub concurrency: Option<u32>,
    /// Folder of the bootstrap and the sockets; a temporary one by default.
    pub work_dir: Option<PathBuf>,
    /// Drain time: how long connections may continue once the proxy stops.
    pub drain_time: Duration,
    pub envoy_log_level: String,
    /// Levels of components, as `upstream:debug,http:trace`.
    pub envoy_component_log_level: Option<String>,
    /// File for the output of Envoy, instead of our standard output.
    pub envoy_output: Option<PathBuf>,
    /// 0 is chosen by the system.
    pub readiness_port: u16,
    pub dns: Option<Dns>,
    pub transparent_proxy: Option<TransparentProxy>,
    /// Outbounds listen on their virtual addresses, which are loopback addresses then.
    pub bind_outbounds: bool,
    pub ipv6: bool,
    /// CA file of this machine; see [`crate::system_ca`].
    pub system_ca: Option<PathBuf>,
    /// Socket of the SPIRE agent.
    pub spire_socket: Option<PathBuf>,
    /// Certificate and private key of the listener with metrics.
    pub metrics_certificate: Option<(PathBuf, PathBuf)>,
    /// Memory at which Envoy sheds load; 0 is no limit.
    pub max_heap_bytes: u64,
    pub discovery: Discovery,
    /// Delay between two requests to the control plane.
    pub retry_every: Duration,
}

/// Mesh, name and Dataplane of the proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub mesh: String,
    pub name: String,
    /// Text of the Dataplane, unless it is stored in the control plane already.
    pub resource: Option<String>,
}

/// Token of the proxy. Printed as `***`.
#[derive(Clone)]
pub struct Token {
    pub text: String,
    /// For control planes that let Envoy read it again.
    pub file: Option<PathBuf>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[derive(Debug, Clone)]
pub struct Dns {
    /// 0 is chosen by the system.
    pub port: u16,
    /// Nameservers for names outside of the mesh.
    pub resolv_conf: PathBuf,
}

/// Ports to which the rules of [`crate::transparent_proxy`] redirect traffic.
#[derive(Debug, Clone, Copy)]
pub struct TransparentProxy {
    pub inbound_port: u16,
    pub outbound_port: u16,
}

/// xDS protocol of Envoy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    Delta,
    StateOfTheWorld,
}

impl Options {
    /// With defaults for everything else.
    pub fn new(control_plane: impl Into<String>, ca_pem: impl Into<Vec<u8>>, proxy: Proxy, envoy: PathBuf) -> Self {
        Self {
            control_plane: control_plane.into(),
            ca_pem: ca_pem.into(),
            proxy,
            token: None,
            envoy,
            concurrency: None,
            work_dir: None,
            drain_time: Duration::from_secs(30),
            envoy_log_level: "info".to_owned(),
            envoy_component_log_level: None,
            envoy_output: None,
            readiness_port: 0,
            dns: None,
            transparent_proxy: None,
            bind_outbounds: false,
            ipv6: false,
            system_ca: None,
            spire_socket: None,
            metrics_certificate: None,
            max_heap_bytes: 0,
            discovery: Discovery::Delta,
            retry_every: Duration::from_secs(3),
        }
    }
}
