//! The certificate authority of a mesh: its backends, and the secrets they are kept in.

use kodiak_model::kinds::mesh::{BackendConf, Mesh, MtlsBackend, ProvidedCa};

pub(crate) const BUILTIN: &str = "builtin";
pub(crate) const PROVIDED: &str = "provided";

pub(crate) fn backends<'a>(mesh: &'a Mesh, backend_type: &'a str) -> impl Iterator<Item = &'a MtlsBackend> {
    mesh.mtls.iter().flat_map(|mtls| &mtls.backends).filter(move |backend| backend.backend_type == backend_type)
}

pub(crate) fn cert_secret(mesh: &str, backend: &str) -> String {
    format!("{mesh}.ca-builtin-cert-{backend}")
}

pub(crate) fn key_secret(mesh: &str, backend: &str) -> String {
    format!("{mesh}.ca-builtin-key-{backend}")
}

/// The backend that this secret is part of.
pub(crate) fn backend_using<'a>(name: &str, mesh: &'a Mesh, secret: &str) -> Option<&'a str> {
    let builtin = backends(mesh, BUILTIN).find(|backend| {
        [cert_secret(name, &backend.name), key_secret(name, &backend.name)].iter().any(|used| used == secret)
    });
    let provided = || {
        backends(mesh, PROVIDED).find(|backend| {
            let ProvidedCa { cert, key } = BackendConf::read(backend.conf.as_ref()).unwrap_or_default();
            [cert, key].into_iter().flatten().any(|source| source.secret.as_deref() == Some(secret))
        })
    };
    builtin.or_else(provided).map(|backend| backend.name.as_str())
}
