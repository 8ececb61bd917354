//! MeshGateway: listeners of builtin gateways.

mod check;
mod spec;

use crate::{CheckCtx, Kind, Language, NoStatus, Problems, Scope, Spec};

pub use spec::{Conf, Listener, ListenerResources, ListenerTls, MeshGateway, Protocol, Selector, TlsMode};

pub static KIND: Kind = Kind::legacy("MeshGateway", "meshgateways", Scope::Mesh, Language::of::<MeshGateway>())
    .short("mgw")
    .without_effect("builtin gateways are not supported yet");

impl Spec for MeshGateway {
    type Status = NoStatus;

    fn check(&self, _: &CheckCtx<'_>, problems: &mut Problems) {
        check::check(self, problems);
    }
}

impl MeshGateway {
    pub fn listeners(&self) -> &[Listener] {
        self.conf.as_ref().map_or(&[], |conf| &conf.listeners)
    }
}
