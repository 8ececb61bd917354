//! Certificates and Secrets for previews: what is stored is used as it is, and what is issued to proxies has a placeholder.
//!
//! **Invariant:** a preview changes where the configuration of proxies would: a placeholder names all that a certificate is
//! issued from, and equal inputs have equal placeholders. No private key of a CA is read.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};

use jiff::Timestamp;
use kodiak_catalog::{FileSources, ca_in_use, ca_sources, external_source, load_source};
use kodiak_engine::{ClientPair, Identities, Leaf, LeafIssuer, LeafRequest, offline::Placeholders};
use kodiak_model::{Kri, ProxyKey, ResourceKey, kinds::mesh_external_service::Source};
use kodiak_rollout::AppliedBackend;
use kodiak_store::Snapshot;
use kodiak_xds::input::{AdminCertificate, Identity};
use kodiak_xds_stream::Version;

pub struct StoredIdentities {
    stored: Snapshot,
    files: FileSources,
}

impl StoredIdentities {
    pub fn new(stored: Snapshot, files: FileSources) -> Self {
        Self { stored, files }
    }

    /// The certificate of a CA that is stored already; a builtin CA is created when its mesh is written.
    fn stored_roots(&self, mesh: &str, backend: &AppliedBackend) -> Option<Arc<str>> {
        if let Some(copy) = backend.ca.as_ref().and_then(|ca| self.copied_roots(mesh, ca)) {
            return Some(copy);
        }
        let spec = self.stored.world().mesh(mesh)?;
        let backend = spec.mtls.iter().flat_map(|mtls| &mtls.backends).find(|known| *known.name == *backend.name)?;
        let cert = load_source(&self.stored, &self.files, mesh, &ca_sources(mesh, backend).ok()?.cert).ok()?;
        String::from_utf8(cert).ok().map(Arc::from)
    }

    /// The certificates in the copy of a CA that a step of the rollout names.
    fn copied_roots(&self, mesh: &str, ca: &str) -> Option<Arc<str>> {
        let copy = self.stored.world().secret(&ResourceKey::in_mesh("Secret", mesh, &ca_in_use(ca)))?;
        let certificates = kodiak_crypto::certificates(&copy).ok()?;
        Some(certificates.iter().map(|der| kodiak_crypto::certificate_pem(der)).collect::<String>().into())
    }
}

impl Identities for StoredIdentities {
    fn leaf(&self, request: &LeafRequest, _: Timestamp) -> Result<Arc<Leaf>, String> {
        let LeafRequest { proxy, issuer, uris } = request;
        let mut hash = DefaultHasher::new();
        (proxy, issuer, uris).hash(&mut hash);
        if let LeafIssuer::Backend(backend) = issuer {
            self.stored_roots(&proxy.mesh, backend).hash(&mut hash);
        }
        let version = hash.finish();
        let text = |part: &str| -> Arc<str> { format!("[{part} {version:016x}, issued by {}]", issuer.name()).into() };
        Ok(Arc::new(Leaf {
            serial: text("certificate"),
            spiffe_id: uris.first().map_or_else(|| text("identity"), |uri| uri.as_str().into()),
            identity: Identity { certificate: text("certificate"), key: text("key") },
            version: Version(version.into()),
            not_after: Timestamp::MAX,
            renew_at: Timestamp::MAX,
        }))
    }

    fn roots(&self, mesh: &str, backend: &AppliedBackend) -> Result<Arc<str>, String> {
        Ok(self.stored_roots(mesh, backend).unwrap_or_else(|| format!("[CA of backend {backend}]").into()))
    }

    fn source(&self, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
        external_source(&self.stored, mesh, source)
    }

    fn client_pair(&self, _: &Kri, pair: ClientPair) -> Result<ClientPair, String> {
        Ok(pair)
    }

    fn admin(&self, proxy: &ProxyKey) -> Option<Arc<AdminCertificate>> {
        Placeholders.admin(proxy)
    }
}
