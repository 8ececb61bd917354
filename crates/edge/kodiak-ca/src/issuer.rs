//! CAs of mesh backends, read from the store once for each version of their sources.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use kodiak_catalog::{CaSources, FileSources, ca_in_use, ca_sources, load_source};
use kodiak_crypto::CaPair;
use kodiak_model::{
    ResourceKey,
    data_source::DataSource,
    kinds::mesh::{MtlsBackend, parse_period},
};
use kodiak_rollout::AppliedBackend;
use kodiak_store::{Record, Snapshot};

use crate::{MeshCas, hash, period::DEFAULT_LIFETIME, with_causes};

/// Type of the backends whose CA the control plane creates.
const BUILTIN: &str = "builtin";

/// One backend of a mesh that can sign.
pub(crate) struct Issuer {
    pub(crate) ca: CaPair,
    pub(crate) roots: Arc<str>,
    /// Certificates (PEM) that proxies send with their own.
    pub(crate) intermediates: Arc<str>,
    /// Lifetime of its certificates.
    pub(crate) lifetime: Duration,
    /// Of its certificates.
    fingerprint: Arc<str>,
    /// Hash of certificate and key as they were read.
    content: u128,
}

#[derive(Default)]
pub(crate) struct Cache {
    /// By mesh and backend.
    named: BTreeMap<(Arc<str>, Arc<str>), Cached>,
    /// Copies of CAs that a backend had, by mesh, fingerprint and lifetime of leaves.
    copies: BTreeMap<(Arc<str>, Arc<str>, Duration), Arc<Issuer>>,
    /// By mesh and backend, of CAs that could be read before: their certificates may be in use.
    roots: BTreeMap<(Arc<str>, Arc<str>), KnownRoots>,
}

struct KnownRoots {
    /// Creation time of the mesh: another one of the same name has nothing to do with it.
    created: Timestamp,
    roots: Arc<str>,
}

struct Cached {
    /// The backend as last listed in the Mesh.
    backend: MtlsBackend,
    mesh_revision: u64,
    sources: CaSources,
    stamps: [Stamp; 2],
    issuer: Arc<Issuer>,
}

/// Changes when the bytes of a source may have changed.
#[derive(PartialEq)]
enum Stamp {
    Secret(Option<u64>),
    File(Option<(SystemTime, u64)>),
    /// Part of the Mesh.
    Inline,
}

/// Validity of the CA of a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaLife {
    pub mesh: Arc<str>,
    pub backend: Arc<str>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Cache {
    pub(crate) fn lives(&self) -> Vec<CaLife> {
        let lives = self.named.iter().map(|((mesh, backend), cached)| CaLife {
            mesh: mesh.clone(),
            backend: backend.clone(),
            not_before: cached.issuer.ca.not_before(),
            not_after: cached.issuer.ca.not_after(),
        });
        lives.collect()
    }

    /// Drops the keys of deleted meshes.
    pub(crate) fn forget_missing(&mut self, snapshot: &Snapshot) {
        let exists = |mesh: &str| snapshot.get(&ResourceKey::global("Mesh", mesh)).is_some();
        self.named.retain(|(mesh, _), _| exists(mesh));
        self.copies.retain(|(mesh, _, _), _| exists(mesh));
        self.roots.retain(|(mesh, _), _| exists(mesh));
    }
}

impl Issuer {
    pub(crate) fn of_identity(ca: CaPair, lifetime: Duration) -> Self {
        let roots = ca.roots_pem().into();
        let intermediates = ca.intermediates_pem().into();
        let fingerprint = ca.bundle_fingerprint().into();
        Self { ca, roots, intermediates, lifetime, fingerprint, content: 0 }
    }

    pub(crate) fn check_alive(&self, now: Timestamp) -> Result<(), String> {
        let (from, until) = (self.ca.not_before(), self.ca.not_after());
        if now < from {
            Err(format!("the CA is not valid before {from}; check the clock of the control plane"))
        } else if until <= now {
            Err(format!("the CA expired at {until}; replace it"))
        } else {
            Ok(())
        }
    }
}

/// The CA of a backend of a mesh, or an error that says what to do. While its sources have other content than the step of
/// the mesh asks for, or a pair that does not match, the copy of the CA that was usable last.
pub(crate) fn of_backend(
    mesh_cas: &MeshCas,
    snapshot: &Snapshot,
    mesh: &str,
    backend: &AppliedBackend,
) -> Result<Arc<Issuer>, String> {
    let AppliedBackend { name, ca } = backend;
    let named = of_name(mesh_cas, snapshot, mesh, name);
    let Some(ca) = ca else { return named };
    if let Some(issuer) = named.as_ref().ok().filter(|issuer| issuer.fingerprint == *ca) {
        return Ok(issuer.clone());
    }
    let lifetime = snapshot.world().mesh(mesh).and_then(|spec| {
        let mut backends = spec.mtls.iter().flat_map(|mtls| &mtls.backends);
        backends.find(|backend| *backend.name == **name).map(lifetime)
    });
    let key = (Arc::from(mesh), ca.clone(), lifetime.unwrap_or(DEFAULT_LIFETIME));
    if let Some(known) = mesh_cas.made().mesh_cas.copies.get(&key) {
        return Ok(known.clone());
    }
    let copy = copy(snapshot, mesh, ca).and_then(|text| CaPair::from_pem(&text, &text).ok());
    let copy =
        copy.filter(|copy| copy.bundle_fingerprint() == **ca).ok_or_else(|| replaced(mesh, name, named.err()))?;
    let issuer = Arc::new(Issuer { intermediates: Arc::default(), ..Issuer::of_identity(copy, key.2) });
    mesh_cas.made().mesh_cas.copies.insert(key, issuer.clone());
    Ok(issuer)
}

/// Root certificates (PEM) of a backend of a mesh. Those of a copy are there also when its key is not, which was in a file.
pub(crate) fn roots(
    mesh_cas: &MeshCas,
    snapshot: &Snapshot,
    mesh: &str,
    backend: &AppliedBackend,
) -> Result<Arc<str>, String> {
    let named = of_name(mesh_cas, snapshot, mesh, &backend.name);
    let Some(ca) = &backend.ca else {
        let known = |error| known_roots(mesh_cas, snapshot, mesh, &backend.name).ok_or(error);
        return named.map(|issuer| issuer.roots.clone()).or_else(known);
    };
    if let Some(issuer) = named.as_ref().ok().filter(|issuer| issuer.fingerprint == *ca) {
        return Ok(issuer.roots.clone());
    }
    let copied = copy(snapshot, mesh, ca).and_then(|text| kodiak_crypto::certificates(&text).ok());
    let pems = copied.ok_or_else(|| replaced(mesh, &backend.name, named.err()))?;
    Ok(pems.iter().map(|der| kodiak_crypto::certificate_pem(der)).collect::<String>().into())
}

/// Copy of a CA that a step names.
fn copy(snapshot: &Snapshot, mesh: &str, ca: &str) -> Option<Vec<u8>> {
    snapshot.world().secret(&ResourceKey::in_mesh("Secret", mesh, &ca_in_use(ca)))
}

fn replaced(mesh: &str, backend: &str, error: Option<String>) -> String {
    let text = "its CA was replaced before all proxies trust the new one; restore it until they do";
    error.unwrap_or_else(|| unusable(mesh, backend, text))
}

/// The CA that the sources of a backend have now.
fn of_name(mesh_cas: &MeshCas, snapshot: &Snapshot, mesh: &str, backend: &str) -> Result<Arc<Issuer>, String> {
    let record = snapshot
        .get(&ResourceKey::global("Mesh", mesh))
        .ok_or_else(|| format!("mesh {mesh:?} does not exist; apply it first"))?;
    let key = (Arc::from(mesh), Arc::from(backend));
    let before = {
        let made = mesh_cas.made();
        let cached = made.mesh_cas.named.get(&key);
        if let Some(cached) = cached.filter(|cached| cached.is_current(snapshot, &mesh_cas.files, record)) {
            return Ok(cached.issuer.clone());
        }
        cached.map(|cached| (cached.backend.clone(), cached.issuer.clone()))
    };
    let read = read(snapshot, &mesh_cas.files, record, backend, before.as_ref());
    let Cache { named: cache, roots, .. } = &mut mesh_cas.made().mesh_cas;
    match read {
        Ok(cached) => {
            let issuer = cached.issuer.clone();
            roots.insert(key.clone(), KnownRoots { created: record.created, roots: issuer.roots.clone() });
            cache.insert(key, cached);
            Ok(issuer)
        }
        Err(error) => {
            cache.remove(&key);
            Err(unusable(mesh, backend, &error))
        }
    }
}

/// Root certificates that a backend had, while it cannot be read.
fn known_roots(mesh_cas: &MeshCas, snapshot: &Snapshot, mesh: &str, backend: &str) -> Option<Arc<str>> {
    let created = snapshot.get(&ResourceKey::global("Mesh", mesh))?.created;
    let made = mesh_cas.made();
    let known = made.mesh_cas.roots.get(&(Arc::from(mesh), Arc::from(backend)))?;
    (known.created == created).then(|| known.roots.clone())
}

pub(crate) fn unusable(mesh: &str, backend: &str, error: &str) -> String {
    format!("mTLS backend {backend:?} of mesh {mesh:?} is not usable: {error}")
}

impl Cached {
    fn is_current(&self, snapshot: &Snapshot, files: &FileSources, mesh: &Record) -> bool {
        self.mesh_revision == mesh.revision && self.stamps == stamps(snapshot, files, &mesh.key.name, &self.sources)
    }
}

fn read(
    snapshot: &Snapshot,
    files: &FileSources,
    record: &Record,
    backend: &str,
    before: Option<&(MtlsBackend, Arc<Issuer>)>,
) -> Result<Cached, String> {
    let name = &record.key.name;
    let mesh = snapshot.world().mesh(name).ok_or("the stored mesh is unreadable; apply it again")?;
    let mut backends = mesh.mtls.iter().flat_map(|mtls| &mtls.backends);
    // mTLS is turned off in steps, and its CA is needed until the last one, also when it is not listed any more.
    let backend = backends
        .find(|found| found.name == backend)
        .cloned()
        .or_else(|| before.map(|(backend, _)| backend.clone()))
        .or_else(|| builtin(snapshot, name, backend))
        .ok_or("it is not listed; add it to mtls.backends")?;
    let sources = ca_sources(name, &backend)?;
    // Before the bytes: a change in between is then seen the next time.
    let stamps = stamps(snapshot, files, name, &sources);
    let cert = load_source(snapshot, files, name, &sources.cert)?;
    let key = load_source(snapshot, files, name, &sources.key)?;
    let content = hash::of_words([cert.as_slice(), key.as_slice()]);
    let lifetime = lifetime(&backend);
    // Another change of the mesh is no reason to reissue all certificates.
    let before = before.map(|(_, issuer)| issuer);
    let same = before.filter(|before| before.content == content && before.lifetime == lifetime);
    let issuer = if let Some(same) = same {
        same.clone()
    } else {
        let ca = CaPair::from_pem(&cert, &key).map_err(|error| with_causes(&error))?;
        // All certificates of a backend are trusted roots.
        Arc::new(Issuer { intermediates: Arc::default(), content, ..Issuer::of_identity(ca, lifetime) })
    };
    Ok(Cached { backend, mesh_revision: record.revision, sources, stamps, issuer })
}

/// The CA that was created for a backend still exists.
fn builtin(snapshot: &Snapshot, mesh: &str, name: &str) -> Option<MtlsBackend> {
    let backend = MtlsBackend { name: name.to_owned(), backend_type: BUILTIN.to_owned(), ..MtlsBackend::default() };
    let sources = ca_sources(mesh, &backend).ok()?;
    let is_there = |source| matches!(stamp(snapshot, &FileSources::default(), mesh, source), Stamp::Secret(Some(_)));
    (is_there(&sources.cert) && is_there(&sources.key)).then_some(backend)
}

fn lifetime(backend: &MtlsBackend) -> Duration {
    let rotation = backend.dp_cert.as_ref().and_then(|dp_cert| dp_cert.rotation.as_ref());
    let period = rotation.and_then(|rotation| parse_period(&rotation.expiration));
    period.filter(|period| !period.is_zero()).unwrap_or(DEFAULT_LIFETIME)
}

fn stamps(snapshot: &Snapshot, files: &FileSources, mesh: &str, sources: &CaSources) -> [Stamp; 2] {
    let CaSources { cert, key } = sources;
    [cert, key].map(|source| stamp(snapshot, files, mesh, source))
}

fn stamp(snapshot: &Snapshot, files: &FileSources, mesh: &str, source: &DataSource) -> Stamp {
    if let Some(name) = &source.secret {
        let record = snapshot.get(&ResourceKey::in_mesh("Secret", mesh, name));
        Stamp::Secret(record.map(|record| record.revision))
    } else if let Some(path) = &source.file {
        Stamp::File(files.stamp(path))
    } else {
        Stamp::Inline
    }
}
