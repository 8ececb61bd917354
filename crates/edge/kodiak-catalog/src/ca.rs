//! CA backends of a mesh, and the Secrets that hold their certificates and keys.

use kodiak_crypto::{CryptoError, RsaBits};
use kodiak_model::{
    ResourceKey,
    data_source::DataSource,
    kinds::mesh::{BackendConf, BuiltinCaCert, Mesh, MtlsBackend, ProvidedCa},
};
use kodiak_store::Snapshot;

pub(crate) const BUILTIN: &str = "builtin";
pub(crate) const PROVIDED: &str = "provided";

/// GlobalSecret with certificate and private key of the CA for Envoy's admin interface, which authenticates proxies and
/// control planes to each other: two PEM blocks in one text.
pub const ADMIN_CA: &str = "envoy-admin-ca";

/// Data sources of a CA's certificate and private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaSources {
    pub cert: DataSource,
    pub key: DataSource,
}

/// Data sources of a backend's CA, or why there are none.
pub fn ca_sources(mesh: &str, backend: &MtlsBackend) -> Result<CaSources, String> {
    let secret = |name| DataSource { secret: Some(name), ..DataSource::default() };
    match backend.backend_type.as_str() {
        BUILTIN => Ok(CaSources {
            cert: secret(cert_secret(mesh, &backend.name)),
            key: secret(key_secret(mesh, &backend.name)),
        }),
        PROVIDED => {
            let ProvidedCa { cert, key } = BackendConf::read(backend.conf.as_ref())?;
            let needed = |source: Option<DataSource>, field| source.ok_or_else(|| format!("conf.{field} is missing"));
            Ok(CaSources { cert: needed(cert, "cert")?, key: needed(key, "key")? })
        }
        other => Err(format!("its type {other:?} is unknown; use {BUILTIN} or {PROVIDED}")),
    }
}

pub(crate) fn backends<'a>(mesh: &'a Mesh, backend_type: &'a str) -> impl Iterator<Item = &'a MtlsBackend> {
    mesh.mtls.iter().flat_map(|mtls| &mtls.backends).filter(move |backend| backend.backend_type == backend_type)
}

/// Whether the CA of a builtin backend is stored.
pub(crate) fn is_made(snapshot: &Snapshot, mesh: &str, backend: &str) -> bool {
    let secrets = [cert_secret(mesh, backend), key_secret(mesh, backend)];
    secrets.iter().all(|name| snapshot.get(&ResourceKey::in_mesh("Secret", mesh, name)).is_some())
}

/// Key size of a new builtin CA.
pub(crate) fn rsa_bits(settings: &BuiltinCaCert) -> Result<RsaBits, CryptoError> {
    settings.rsa_bits.filter(|bits| *bits > 0).map_or(Ok(RsaBits::default()), RsaBits::try_from)
}

pub(crate) fn cert_secret(mesh: &str, backend: &str) -> String {
    format!("{mesh}.ca-builtin-cert-{backend}")
}

pub(crate) fn key_secret(mesh: &str, backend: &str) -> String {
    format!("{mesh}.ca-builtin-key-{backend}")
}

/// The Secret for a private key that was written into the Mesh.
pub(crate) fn provided_key_secret(mesh: &str, backend: &str) -> String {
    format!("{mesh}.ca-provided-key-{backend}")
}

/// The backend that uses this Secret.
pub(crate) fn backend_using<'a>(name: &str, mesh: &'a Mesh, secret: &str) -> Option<&'a str> {
    let uses = |backend: &&MtlsBackend| {
        ca_sources(name, backend)
            .is_ok_and(|CaSources { cert, key }| [cert, key].iter().any(|used| used.secret.as_deref() == Some(secret)))
    };
    let mut backends = mesh.mtls.iter().flat_map(|mtls| &mtls.backends);
    backends.find(uses).map(|backend| backend.name.as_str())
}
