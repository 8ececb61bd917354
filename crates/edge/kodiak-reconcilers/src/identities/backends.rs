//! CAs of `provided` backends of a mesh: which content takes part in the rollout.
//!
//! **Invariant:** a certificate and a key that do not match are never used: the CA that was usable last stays.

use std::{collections::BTreeMap, sync::Arc};

use kodiak_catalog::{CaSources, IdentityCa, ca_in_use, ca_sources, load_source};
use kodiak_crypto::{CaPair, check_ca_pair};
use kodiak_model::{
    ResourceKey,
    kinds::mesh::{Mesh, MtlsBackend},
};
use kodiak_store::Write;

use super::Situation;

const PROVIDED: &str = "provided";

/// CAs of backends, and the writes of their copies.
#[derive(Default)]
pub(super) struct BackendCas {
    /// Fingerprints by backend.
    pub(super) usable: BTreeMap<Arc<str>, Arc<str>>,
    pub(super) writes: Vec<Write>,
}

impl BackendCas {
    pub(super) fn of(situation: &Situation<'_>, mesh: &Mesh) -> Self {
        let mut cas = Self::default();
        let provided = mesh.mtls.iter().flat_map(|mtls| &mtls.backends);
        for backend in provided.filter(|backend| backend.backend_type == PROVIDED) {
            let name: Arc<str> = backend.name.as_str().into();
            let fingerprint = match read(situation, backend) {
                Ok((fingerprint, ca)) => {
                    cas.writes.extend(copy(situation, &ca, &fingerprint));
                    Some(fingerprint)
                }
                Err(error) => {
                    let last = situation.before.backends.get(&name).cloned();
                    let (mesh, backend) = (&**situation.mesh, &*name);
                    tracing::warn!(mesh, backend, error, "CA of an mTLS backend is not usable, keeping the last one");
                    last
                }
            };
            cas.usable.extend(fingerprint.map(|fingerprint| (name, fingerprint)));
        }
        cas
    }
}

fn read(situation: &Situation<'_>, backend: &MtlsBackend) -> Result<(Arc<str>, IdentityCa), String> {
    let &Situation { catalog, snapshot, mesh, now, .. } = situation;
    let CaSources { cert, key } = ca_sources(mesh, backend)?;
    let is_stored = [&cert, &key].iter().all(|source| source.file.is_none());
    let [cert, key] = [cert, key].map(|source| load_source(snapshot, catalog.files(), mesh, &source));
    let (cert, key) = (cert?, key?);
    if let Some(problem) = check_ca_pair(&cert, &key, now).first() {
        return Err(problem.to_string());
    }
    let pair = CaPair::from_pem(&cert, &key).map_err(|error| error.to_string())?;
    Ok((pair.bundle_fingerprint().into(), IdentityCa { cert, key, is_stored }))
}

/// Copy that remains while a step names the CA. Keys in files stay there.
fn copy(situation: &Situation<'_>, ca: &IdentityCa, fingerprint: &str) -> Option<Write> {
    let key = ResourceKey::in_mesh("Secret", situation.mesh, &ca_in_use(fingerprint));
    let private = if ca.is_stored { ca.key.clone() } else { Vec::new() };
    let copied = IdentityCa { cert: ca.cert.clone(), key: private, is_stored: ca.is_stored };
    let is_missing = situation.snapshot.get(&key).is_none();
    is_missing.then(|| situation.catalog.copy_identity_ca(situation.mesh, &copied, fingerprint))
}
