//! The authorities of mesh backends, read from the store once for each version of what they are made of.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use jiff::Timestamp;
use kodiak_catalog::{AuthoritySources, FileSources, authority_sources, load_source, spec_of};
use kodiak_crypto::CaPair;
use kodiak_model::{
    ResourceKey,
    data_source::DataSource,
    kinds::mesh::{Mesh, MtlsBackend, parse_period},
};
use kodiak_store::{Record, Snapshot};

use crate::{Authorities, hash, period::DEFAULT_LIFETIME, told};

/// The type of backends whose authority we make.
const BUILTIN: &str = "builtin";

/// One backend of a mesh that can sign.
pub(crate) struct Authority {
    pub(crate) ca: CaPair,
    pub(crate) roots: Arc<str>,
    /// How long its certificates live.
    pub(crate) lifetime: Duration,
    /// Of certificate and key as they were read.
    content: u128,
}

/// By mesh and backend.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<(Arc<str>, Arc<str>), Cached>);

struct Cached {
    /// As the Mesh listed it last.
    backend: MtlsBackend,
    mesh_revision: u64,
    sources: AuthoritySources,
    stamps: [Stamp; 2],
    authority: Arc<Authority>,
}

/// Changes when the bytes of a source may have changed.
#[derive(PartialEq)]
enum Stamp {
    Secret(Option<u64>),
    File(Option<(SystemTime, u64)>),
    /// Part of the Mesh.
    Inline,
}

/// How long the CA of a backend lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaLife {
    pub mesh: Arc<str>,
    pub backend: Arc<str>,
    pub not_before: Timestamp,
    pub not_after: Timestamp,
}

impl Cache {
    pub(crate) fn lives(&self) -> Vec<CaLife> {
        let lives = self.0.iter().map(|((mesh, backend), cached)| CaLife {
            mesh: mesh.clone(),
            backend: backend.clone(),
            not_before: cached.authority.ca.not_before(),
            not_after: cached.authority.ca.not_after(),
        });
        lives.collect()
    }

    /// Lets go of the keys of meshes that are gone.
    pub(crate) fn forget_missing(&mut self, snapshot: &Snapshot) {
        self.0.retain(|(mesh, _), _| snapshot.get(&ResourceKey::global("Mesh", mesh)).is_some());
    }
}

impl Authority {
    pub(crate) fn check_alive(&self, now: Timestamp) -> Result<(), String> {
        let (from, until) = (self.ca.not_before(), self.ca.not_after());
        if now < from {
            Err(format!("it is not valid before {from}; look at the clock of the control plane"))
        } else if until <= now {
            Err(format!("it expired at {until}; list another backend in mtls.backends and set enabledBackend to it"))
        } else {
            Ok(())
        }
    }
}

/// The authority behind a backend of a mesh, or what to do about it.
pub(crate) fn of_backend(
    authorities: &Authorities,
    snapshot: &Snapshot,
    mesh: &str,
    backend: &str,
) -> Result<Arc<Authority>, String> {
    let record = snapshot
        .get(&ResourceKey::global("Mesh", mesh))
        .ok_or_else(|| format!("there is no mesh {mesh:?}; apply it first"))?;
    let key = (Arc::from(mesh), Arc::from(backend));
    let before = {
        let made = authorities.made();
        let cached = made.authorities.0.get(&key);
        if let Some(cached) = cached.filter(|cached| cached.is_current(snapshot, &authorities.files, record)) {
            return Ok(cached.authority.clone());
        }
        cached.map(|cached| (cached.backend.clone(), cached.authority.clone()))
    };
    let read = read(snapshot, &authorities.files, record, backend, before.as_ref());
    let cache = &mut authorities.made().authorities.0;
    match read {
        Ok(cached) => {
            let authority = cached.authority.clone();
            cache.insert(key, cached);
            Ok(authority)
        }
        Err(error) => {
            cache.remove(&key);
            Err(unusable(mesh, backend, &error))
        }
    }
}

pub(crate) fn unusable(mesh: &str, backend: &str, error: &str) -> String {
    format!("the mTLS backend {backend:?} of mesh {mesh:?} cannot be used: {error}")
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
    before: Option<&(MtlsBackend, Arc<Authority>)>,
) -> Result<Cached, String> {
    let name = &record.key.name;
    let mesh: Mesh = spec_of(record).ok_or("the mesh cannot be read; apply it again")?;
    let mut backends = mesh.mtls.iter().flat_map(|mtls| &mtls.backends);
    // mTLS is turned off in steps, and its authority is needed until the last one, also when it is listed no longer.
    let backend = backends
        .find(|found| found.name == backend)
        .cloned()
        .or_else(|| before.map(|(backend, _)| backend.clone()))
        .or_else(|| builtin(snapshot, name, backend))
        .ok_or("it is not listed; add it to mtls.backends")?;
    let sources = authority_sources(name, &backend)?;
    // Before the bytes: what changes in between is then seen the next time.
    let stamps = stamps(snapshot, files, name, &sources);
    let cert = load_source(snapshot, files, name, &sources.cert)?;
    let key = load_source(snapshot, files, name, &sources.key)?;
    let content = hash::of_words([cert.as_slice(), key.as_slice()]);
    let lifetime = lifetime(&backend);
    // Another change of the mesh is no reason to make all certificates anew.
    let before = before.map(|(_, authority)| authority);
    let same = before.filter(|before| before.content == content && before.lifetime == lifetime);
    let authority = if let Some(same) = same {
        same.clone()
    } else {
        let ca = CaPair::from_pem(&cert, &key).map_err(|error| told(&error))?;
        let roots = ca.roots_pem().into();
        Arc::new(Authority { ca, roots, lifetime, content })
    };
    Ok(Cached { backend, mesh_revision: record.revision, sources, stamps, authority })
}

/// The authority that was made for a backend is still there.
fn builtin(snapshot: &Snapshot, mesh: &str, name: &str) -> Option<MtlsBackend> {
    let backend = MtlsBackend { name: name.to_owned(), backend_type: BUILTIN.to_owned(), ..MtlsBackend::default() };
    let sources = authority_sources(mesh, &backend).ok()?;
    let is_there = |source| matches!(stamp(snapshot, &FileSources::default(), mesh, source), Stamp::Secret(Some(_)));
    (is_there(&sources.cert) && is_there(&sources.key)).then_some(backend)
}

fn lifetime(backend: &MtlsBackend) -> Duration {
    let rotation = backend.dp_cert.as_ref().and_then(|dp_cert| dp_cert.rotation.as_ref());
    let period = rotation.and_then(|rotation| parse_period(&rotation.expiration));
    period.filter(|period| !period.is_zero()).unwrap_or(DEFAULT_LIFETIME)
}

fn stamps(snapshot: &Snapshot, files: &FileSources, mesh: &str, sources: &AuthoritySources) -> [Stamp; 2] {
    let AuthoritySources { cert, key } = sources;
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
