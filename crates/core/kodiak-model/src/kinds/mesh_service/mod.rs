//! MeshService: a service in the mesh, with its proxies and ports.

mod check;
mod spec;
mod status;

use crate::{CheckCtx, Kind, Language, PortSection, Problems, Spec};

pub use spec::{DataplaneRef, Identity, IdentityType, MeshService, Port, Selector, State};
pub use status::{DataplaneProxies, MeshServiceStatus, TlsReadiness, TlsStatus, Vip};

pub static KIND: Kind = Kind::plugin("MeshService", "meshservices", "msvc", Language::of::<MeshService>());

impl Spec for MeshService {
    type Status = MeshServiceStatus;
    const DESTINATION: bool = true;

    fn check(&self, ctx: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, ctx, problems);
    }

    fn ports(&self) -> Vec<PortSection> {
        self.ports.iter().map(|port| PortSection::of(port.port, port.name.as_deref())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn section_name_is_the_port_name_or_number() {
        let port = |name: Option<&str>, port| Port { name: name.map(str::to_owned), port, ..Port::default() };
        let ports = vec![port(Some("http"), 80), port(None, 81), port(Some(""), 82)];
        let service = MeshService { ports, ..MeshService::default() };
        let sections: Vec<_> = service.ports().into_iter().map(|port| port.section).collect();
        assert_eq!(sections, ["http", "81", "82"]);
    }
}
