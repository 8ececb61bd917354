//! What a runner is told.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything about one proxy and its Envoy.
#[derive(Debug, Clone)]
pub struct Options {
    /// `https://host:port`
    pub control_plane: String,
    /// The authorities that may vouch for the control plane, as PEM.
    pub ca_pem: Vec<u8>,
    pub proxy: Proxy,
    pub token: Option<Token>,
    /// The program.
    pub envoy: PathBuf,
    /// Worker threads of Envoy; one for each core where nothing is said.
    pub concurrency: Option<u32>,
    /// Where the bootstrap and the sockets are; a temporary folder where nothing is said.
    pub work_dir: Option<PathBuf>,
    /// How long connections have to end once the proxy is to stop.
    pub drain_time: Duration,
    pub envoy_log_level: String,
    /// A file for what Envoy prints, instead of our own standard output.
    pub envoy_output: Option<PathBuf>,
    /// 0 is chosen by the system.
    pub readiness_port: u16,
    pub dns: Option<Dns>,
    pub transparent_proxy: Option<TransparentProxy>,
    pub ipv6: bool,
    /// The file with the authorities of this machine; see [`crate::system_ca`].
    pub system_ca: Option<PathBuf>,
    pub discovery: Discovery,
    /// How long to wait before the control plane is asked again.
    pub retry_every: Duration,
}

/// Who the proxy is.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub mesh: String,
    pub name: String,
    /// The text of the Dataplane, where it is not in the control plane already.
    pub resource: Option<String>,
}

/// What proves who the proxy is. Prints as `***`.
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
    /// Who knows the names that are not of the mesh.
    pub resolv_conf: PathBuf,
}

/// Where the rules of [`crate::transparent_proxy`] send traffic.
#[derive(Debug, Clone, Copy)]
pub struct TransparentProxy {
    pub inbound_port: u16,
    pub outbound_port: u16,
}

/// How Envoy is told of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    Delta,
    StateOfTheWorld,
}

impl Options {
    /// With what is usual for everything else.
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
            envoy_output: None,
            readiness_port: 0,
            dns: None,
            transparent_proxy: None,
            ipv6: false,
            system_ca: None,
            discovery: Discovery::Delta,
            retry_every: Duration::from_secs(3),
        }
    }
}
