//! Transparent proxying: redirection of the application's connections to the proxy.

use kodiak_envoy::google::protobuf::Struct;
use kodiak_model::kinds::dataplane::{IpFamilyMode, TransparentProxying};

use super::fields::{Reader, Writer};

/// Redirection settings in the metadata.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TransparentProxy {
    pub inbound: Redirect,
    pub outbound: Redirect,
    pub dns: Redirect,
    /// `dualstack`, `ipv4` or `ipv6`; not validated.
    pub ip_family_mode: Option<String>,
}

/// Redirection of inbound or outbound connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Redirect {
    pub enabled: bool,
    pub port: Option<u32>,
}

/// Effective settings, from the metadata or the Dataplane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Redirection {
    /// `None` when inbound connections are not redirected.
    pub inbound_port: Option<u32>,
    pub outbound_port: u32,
    pub ipv6: bool,
}

impl TransparentProxy {
    pub(super) fn read(fields: Reader<'_>) -> Option<Self> {
        fields.0?;
        let redirect = fields.within("redirect");
        Some(Self {
            inbound: Redirect::read(redirect.within("inbound"), true),
            outbound: Redirect::read(redirect.within("outbound"), true),
            dns: Redirect::read(redirect.within("dns"), false),
            ip_family_mode: fields.text("ipFamilyMode"),
        })
    }

    pub(super) fn write(&self) -> Struct {
        let Self { inbound, outbound, dns, ip_family_mode } = self;
        let redirect = Writer::default()
            .within("inbound", Some(inbound.write()))
            .within("outbound", Some(outbound.write()))
            .within("dns", Some(dns.write()))
            .done();
        Writer::default().within("redirect", Some(redirect)).text("ipFamilyMode", ip_family_mode.as_deref()).done()
    }

    fn in_force(&self) -> Option<Redirection> {
        Some(Redirection {
            inbound_port: self.inbound.port.filter(|_| self.inbound.enabled),
            outbound_port: self.outbound.port.filter(|_| self.outbound.enabled)?,
            ipv6: !self.ip_family_mode.as_ref().is_some_and(|mode| mode.eq_ignore_ascii_case("ipv4")),
        })
    }
}

impl Redirect {
    fn read(fields: Reader<'_>, enabled: bool) -> Self {
        let port = fields.port("port");
        Self { enabled: fields.flag("enabled").unwrap_or(enabled && port.is_some()), port }
    }

    fn write(self) -> Struct {
        Writer::default().flag("enabled", Some(self.enabled)).number("port", self.port).done()
    }
}

/// Metadata overrides the Dataplane, which may be hand-written.
pub(super) fn in_force(
    metadata: Option<&TransparentProxy>,
    dataplane: Option<&TransparentProxying>,
) -> Option<Redirection> {
    match metadata {
        Some(metadata) => metadata.in_force(),
        None => of_dataplane(dataplane?),
    }
}

fn of_dataplane(dataplane: &TransparentProxying) -> Option<Redirection> {
    let port = |port: u32| (port != 0).then_some(port);
    let only_ipv4 = dataplane.ip_family_mode.as_ref().is_some_and(|mode| mode.is(IpFamilyMode::IPv4));
    Some(Redirection {
        inbound_port: port(dataplane.redirect_port_inbound),
        outbound_port: port(dataplane.redirect_port_outbound)?,
        ipv6: !only_ipv4,
    })
}
