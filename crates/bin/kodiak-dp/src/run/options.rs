//! Options of `kodiak dp run`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything about one proxy and its Envoy.
#[derive(Debug, Clone)]
pub struct Options {
    /// `https://host:port`
    pub control_plane: String,
    /// CAs of the control plane's certificate, as PEM.
    pub ca_pem: Vec<u8>,
    pub proxy: Proxy,
    pub token: Option<Token>,
    /// The Envoy program.
    pub envoy: PathBuf,
    /// Worker threads of Envoy; one for each core by default.
    pub concurrency: Option<u32>,
    /// Folder of the bootstrap and the sockets; a temporary folder by default.
    pub work_dir: Option<PathBuf>,
    /// How long connections may drain when the proxy stops.
    pub drain_time: Duration,
    pub envoy_log_level: String,
    /// File for Envoy's output, instead of the standard output.
    pub envoy_output: Option<PathBuf>,
    /// 0 is chosen by the system.
    pub readiness_port: u16,
    pub dns: Option<Dns>,
    pub transparent_proxy: Option<TransparentProxy>,
    pub ipv6: bool,
    /// CA file of the operating system; see [`crate::system_ca`].
    pub system_ca: Option<PathBuf>,
    pub discovery: Discovery,
    /// Interval between requests for the bootstrap.
    pub retry_every: Duration,
}

/// Identity of the proxy.
#[derive(Debug, Clone)]
pub struct Proxy {
    pub mesh: String,
    pub name: String,
    /// Text of the Dataplane, if it is not on the control plane already.
    pub resource: Option<String>,
}

/// Dataplane token. Prints as `***`.
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
    /// Nameservers for names outside the mesh.
    pub resolv_conf: PathBuf,
}

/// Ports that the rules of [`crate::transparent_proxy`] redirect traffic to.
#[derive(Debug, Clone, Copy)]
pub struct TransparentProxy {
    pub inbound_port: u16,
    pub outbound_port: u16,
}

/// Variant of xDS.
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
