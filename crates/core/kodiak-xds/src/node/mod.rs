//! Node metadata, which a proxy sends when it connects.
//!
//! It is untrusted input, so invalid fields count as missing.

pub mod features;
mod fields;
mod redirect;
#[cfg(test)]
mod tests;
mod version;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kodiak_envoy::google::protobuf::Struct;
use kodiak_model::kinds::dataplane::TransparentProxying;
use prost::Message as _;

pub use redirect::{Redirect, Redirection, TransparentProxy};
pub use version::{DpVersion, EnvoyVersion, Versions};

use crate::address::LOOPBACK;
use crate::input::{AdminEndpoint, DnsServer, Readiness, Shape};
use crate::names;
use fields::{Reader, Writer};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ProxyType {
    #[default]
    Dataplane,
    Ingress,
    Egress,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeMetadata {
    pub versions: Versions,
    pub features: BTreeSet<String>,
    /// Folder of the sidecar's sockets.
    pub workdir: Option<String>,
    pub metrics_cert_path: Option<String>,
    pub metrics_key_path: Option<String>,
    /// CA file of the operating system.
    pub system_ca_path: Option<String>,
    /// Older versions do not send it, and support IPv6.
    pub ipv6_enabled: bool,
    pub spire_socket: Option<String>,
    /// The Dataplane that the proxy registers, as text.
    pub resource: Option<String>,
    /// Address of the Dataplane, for access logs.
    pub address: Option<String>,
    pub admin_port: Option<u32>,
    pub admin_address: Option<String>,
    pub admin_socket: Option<String>,
    pub dns_port: Option<u32>,
    pub readiness_port: Option<u32>,
    /// The sidecar process serves HTTP probes of applications.
    pub probe_proxy: bool,
    pub proxy_type: ProxyType,
    /// User-defined values for access logs.
    pub dynamic_metadata: BTreeMap<String, String>,
    pub transparent_proxy: Option<TransparentProxy>,
    /// OpenTelemetry settings from the environment of the sidecar process: an encoded `Struct`, since bytes can be
    /// compared and hashed and its floats cannot.
    pub open_telemetry: Option<Bytes>,
}

impl Default for NodeMetadata {
    fn default() -> Self {
        Self::read(&Struct::default())
    }
}

impl NodeMetadata {
    pub fn read(metadata: &Struct) -> Self {
        let fields = Reader(Some(metadata));
        Self {
            versions: Versions::read(fields.within("version")),
            features: fields.texts("features"),
            workdir: fields.text("workdir"),
            metrics_cert_path: fields.text("metricsCertPath"),
            metrics_key_path: fields.text("metricsKeyPath"),
            system_ca_path: fields.text("systemCaPath"),
            ipv6_enabled: fields.flag("ipv6Enabled").unwrap_or(true),
            spire_socket: fields.text("spireAgent.socketPath"),
            resource: fields.text("dataplane.resource"),
            address: fields.text("dataplane.address"),
            admin_port: fields.port("dataplane.admin.port"),
            admin_address: fields.text("dataplane.admin.address"),
            admin_socket: fields.text("dataplane.admin.socketPath"),
            dns_port: fields.port("dataplane.dns.port"),
            readiness_port: fields.port("dataplane.readinessReporter.port"),
            probe_proxy: fields.flag("dataplane.appProbeProxy.enabled").unwrap_or(false),
            proxy_type: fields.text("dataplane.proxyType").map_or(ProxyType::default(), |text| ProxyType::read(&text)),
            dynamic_metadata: fields.map("dynamicMetadata"),
            transparent_proxy: TransparentProxy::read(fields.within("transparentProxy")),
            open_telemetry: fields.within("otelEnvInventory").0.map(|fields| fields.encode_to_vec().into()),
        }
    }

    pub fn write(&self) -> Struct {
        let Self {
            versions,
            features,
            workdir,
            metrics_cert_path,
            metrics_key_path,
            system_ca_path,
            ipv6_enabled,
            spire_socket,
            resource,
            address,
            admin_port,
            admin_address,
            admin_socket,
            dns_port,
            readiness_port,
            probe_proxy,
            proxy_type,
            dynamic_metadata,
            transparent_proxy,
            open_telemetry,
        } = self;
        Writer::default()
            .within("version", Some(versions.write()))
            .texts("features", features)
            .text("workdir", workdir.as_deref())
            .text("metricsCertPath", metrics_cert_path.as_deref())
            .text("metricsKeyPath", metrics_key_path.as_deref())
            .text("systemCaPath", system_ca_path.as_deref())
            .flag("ipv6Enabled", Some(*ipv6_enabled))
            .text("spireAgent.socketPath", spire_socket.as_deref())
            .text("dataplane.resource", resource.as_deref())
            .text("dataplane.address", address.as_deref())
            .text("dataplane.addressAndPort", address.as_deref().map(|at| names::host_port(at, 0)).as_deref())
            .port("dataplane.admin.port", *admin_port)
            .text("dataplane.admin.address", admin_address.as_deref())
            .text("dataplane.admin.socketPath", admin_socket.as_deref())
            .port("dataplane.dns.port", *dns_port)
            .port("dataplane.readinessReporter.port", *readiness_port)
            .text("dataplane.appProbeProxy.enabled", probe_proxy.then_some("true"))
            .text("dataplane.proxyType", Some(proxy_type.as_str()))
            .map("dynamicMetadata", dynamic_metadata)
            .within("transparentProxy", transparent_proxy.as_ref().map(TransparentProxy::write))
            .within("otelEnvInventory", open_telemetry.as_deref().and_then(|bytes| Struct::decode(bytes).ok()))
            .done()
    }

    /// See [`features`].
    pub fn has(&self, feature: &str) -> bool {
        self.features.contains(feature)
    }

    /// `None` if the sidecar process does not serve readiness.
    pub fn readiness(&self) -> Option<Readiness> {
        let socket = self.workdir.as_deref().filter(|_| self.has(features::READINESS_SOCKET));
        let socket = socket.map(|workdir| Readiness::Socket(names::readiness_socket(workdir)));
        socket.or_else(|| self.readiness_port.map(Readiness::Port))
    }

    /// The Dataplane's settings apply only when the metadata has none.
    pub fn redirection(&self, dataplane: Option<&TransparentProxying>) -> Option<Redirection> {
        redirect::in_force(self.transparent_proxy.as_ref(), dataplane)
    }

    pub fn shape(&self, dataplane: Option<&TransparentProxying>) -> Shape {
        Shape {
            transparent: self.redirection(dataplane).is_some(),
            reuse_port: self.has(features::REUSE_PORT),
            ipv6: self.ipv6_enabled,
        }
    }

    /// `None` for a proxy whose admin interface is unreachable.
    pub fn admin_endpoint(&self) -> Option<AdminEndpoint> {
        if let Some(socket) = &self.admin_socket {
            return Some(AdminEndpoint::Socket(socket.clone()));
        }
        let address = self.admin_address.clone().unwrap_or_else(|| LOOPBACK.to_owned());
        Some(AdminEndpoint::Address { address, port: self.admin_port? })
    }

    /// Pipe from which the sidecar process of a proxy forwards access logs. `None` if it does not.
    pub fn access_log_pipe(&self, name: &str, mesh: &str) -> Option<String> {
        let workdir = self.workdir.as_deref().filter(|_| self.has(features::ACCESS_LOG_PIPE))?;
        Some(names::access_log_pipe(workdir, name, mesh))
    }

    /// Pipe from which the sidecar process of a proxy counts callers without mTLS. `None` if it does not.
    pub fn plaintext_callers_pipe(&self, name: &str, mesh: &str) -> Option<String> {
        self.access_log_pipe(name, mesh).filter(|_| self.has(features::PLAINTEXT_CALLERS))
    }

    /// `None` when DNS is not redirected to the proxy.
    pub fn dns_server(&self, dataplane: Option<&TransparentProxying>) -> Option<DnsServer> {
        self.redirection(dataplane)?;
        if self.transparent_proxy.as_ref().is_some_and(|proxy| !proxy.dns.enabled) {
            return None;
        }
        match &self.workdir {
            Some(workdir) if self.has(features::EMBEDDED_DNS) => {
                Some(DnsServer::Runner { socket: names::dynamic_config_socket(workdir) })
            }
            _ => Some(DnsServer::Envoy { port: self.dns_port? }),
        }
    }
}

impl ProxyType {
    pub fn read(text: &str) -> Self {
        match text {
            "ingress" => Self::Ingress,
            "egress" => Self::Egress,
            _ => Self::Dataplane,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Dataplane => "dataplane",
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}
