//! CAs of a mesh: usable, and not changed while proxies have their certificates.
//!
//! While mTLS is enabled, a CA is changed by listing another backend, enabling it, and removing the first one when no
//! proxy has its certificate any more. Any other way would disconnect proxies from each other.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kodiak_crypto::{certificates, check_ca_pair};
use kodiak_model::{
    FieldPath, Problems, ResourceKey,
    data_source::DataSource,
    kinds::{
        dataplane_insight::DataplaneInsight,
        mesh::{BackendConf, BuiltinCa, Mesh, MtlsBackend, ProvidedCa},
    },
};
use kodiak_store::Snapshot;

use crate::{
    FileSources,
    ca::{BUILTIN, CaSources, PROVIDED, ca_sources, is_made, rsa_bits},
    load_source,
};

const CHANGED: &str = "Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA";

/// Maximum number of new CAs in one write.
const MAX_NEW: usize = 4;

pub(super) fn check_change(
    snapshot: &Snapshot,
    files: &FileSources,
    name: &str,
    old: &Mesh,
    new: &Mesh,
    problems: &mut Problems,
) {
    let (Some(signing), Some(enabled)) = (old.enabled_backend(), new.enabled_backend()) else { return };
    let mtls = FieldPath::ROOT.field("mtls");
    let at = mtls.field("backends");
    for backend in backends(old) {
        let was = backend.name.as_str();
        if let Some((index, now)) = backends(new).enumerate().find(|(_, now)| now.name == was) {
            let at = at.index(index);
            if backend.backend_type != now.backend_type {
                problems.add(&at.field("type"), CHANGED);
            } else if !same_authority(snapshot, files, name, backend, now) {
                problems.add(&at.field("conf"), CHANGED);
            }
        } else if was == signing.name {
            let message = format!(
                "the backend {was} still signs: set enabledBackend to another backend first, keep {was} listed until no proxy has its certificate, then remove it"
            );
            problems.add(&at, message);
        } else if let Some(holders) = holders(snapshot, name, was) {
            let enabled = &enabled.name;
            let message = format!(
                "the backend {was} is still needed: {holders} its certificate; keep {was} listed until every proxy has one of {enabled}, then remove it"
            );
            problems.add(&at, message);
        }
    }
}

fn backends(mesh: &Mesh) -> impl Iterator<Item = &MtlsBackend> {
    mesh.mtls.iter().flat_map(|mtls| &mtls.backends)
}

/// Root certificates may be appended, but not removed, and the first one signs. A builtin CA is created once, whatever
/// its settings become. An unreadable CA signs nothing, and may be fixed.
fn same_authority(snapshot: &Snapshot, files: &FileSources, mesh: &str, old: &MtlsBackend, new: &MtlsBackend) -> bool {
    let trusted = |backend| {
        let CaSources { cert, .. } = ca_sources(mesh, backend).ok()?;
        certificates(&load_source(snapshot, files, mesh, &cert).ok()?).ok()
    };
    let (Some(old), Some(new)) = (trusted(old), trusted(new)) else { return true };
    new.starts_with(&old)
}

/// The connected proxies that have a certificate of this backend, as text; `None` if there are none.
fn holders(snapshot: &Snapshot, mesh: &str, backend: &str) -> Option<String> {
    let mut holders = snapshot.world().list_in("DataplaneInsight", mesh).filter(|resource| {
        resource.spec::<DataplaneInsight>().is_some_and(|insight| {
            insight.is_online() && insight.mtls.as_ref().is_some_and(|mtls| mtls.issued_backend == backend)
        })
    });
    let first = &holders.next()?.key.name;
    Some(match holders.count() {
        0 => format!("1 connected proxy ({first}) has"),
        others => format!("{} connected proxies (the first is {first}) have", others + 1),
    })
}

/// New builtin CAs: each costs a key, so their number and size are bounded, also with `skipValidation`.
pub(super) fn check_builtin(snapshot: &Snapshot, name: &str, mesh: &Mesh, problems: &mut Problems) {
    let mtls = FieldPath::ROOT.field("mtls");
    let at = mtls.field("backends");
    let builtin = backends(mesh).enumerate().filter(|(_, backend)| backend.backend_type == BUILTIN);
    let new: Vec<_> = builtin.filter(|(_, backend)| !is_made(snapshot, name, &backend.name)).collect();
    if new.len() > MAX_NEW {
        let message = format!("{} backends need a new CA; add at most {MAX_NEW} in one write", new.len());
        problems.add(&at, message);
    }
    for (index, backend) in new {
        // Validation has reported unreadable settings already, or they count as missing.
        let settings = BackendConf::read::<BuiltinCa>(backend.conf.as_ref()).unwrap_or_default();
        if let Err(error) = rsa_bits(&settings.ca_cert.unwrap_or_default()) {
            let at = at.index(index);
            let at = at.field("conf");
            let at = at.field("caCert");
            problems.add(&at.field("RSAbits"), error.to_string());
        }
    }
}

/// A stored CA that expired, or that cannot be read any more, is a warning: otherwise it could not be replaced by another
/// one beside it. It must be valid when it begins to sign.
pub(super) fn check_provided(
    snapshot: &Snapshot,
    files: &FileSources,
    name: &str,
    old: Option<&Mesh>,
    mesh: &Mesh,
    problems: &mut Problems,
    warnings: &mut Vec<String>,
) {
    let enabled = |mesh: &Mesh| mesh.enabled_backend().map(|backend| backend.name.clone());
    let was_enabled = old.and_then(enabled);
    let is_known = |backend: &MtlsBackend| {
        let stored = old.into_iter().flat_map(backends).find(|stored| stored.name == backend.name);
        let same =
            stored.is_some_and(|stored| stored.backend_type == backend.backend_type && stored.conf == backend.conf);
        let is_enabled_now =
            enabled(mesh).as_ref() == Some(&backend.name) && was_enabled.as_ref() != Some(&backend.name);
        same && !is_enabled_now
    };
    let mtls = FieldPath::ROOT.field("mtls");
    let at = mtls.field("backends");
    for (index, backend) in backends(mesh).enumerate().filter(|(_, backend)| backend.backend_type == PROVIDED) {
        let mut found = Problems::default();
        check_pair(snapshot, files, name, backend, &at.index(index).field("conf"), &mut found);
        for problem in found.iter() {
            if is_known(backend) {
                warnings.push(format!("{}: {}", problem.path, problem.message));
            } else {
                problems.push(problem.clone());
            }
        }
    }
}

/// Secrets of the `provided` backends.
pub(super) fn sources_read(name: &str, mesh: &Mesh) -> impl Iterator<Item = ResourceKey> + use<> {
    let provided = backends(mesh).filter(|backend| backend.backend_type == PROVIDED);
    let sources = provided.filter_map(|backend| ca_sources(name, backend).ok());
    let secrets = sources.flat_map(|CaSources { cert, key }| [cert.secret, key.secret]).flatten();
    let keys: BTreeSet<_> = secrets.map(|secret| ResourceKey::in_mesh("Secret", name, &secret)).collect();
    keys.into_iter()
}

fn check_pair(
    snapshot: &Snapshot,
    files: &FileSources,
    mesh: &str,
    backend: &MtlsBackend,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) {
    let ProvidedCa { cert, key } = BackendConf::read(backend.conf.as_ref()).unwrap_or_default();
    // Validation has reported missing sources already.
    let mut load = |source: Option<DataSource>, field: &str| {
        let source = source.filter(DataSource::is_chosen)?;
        load_source(snapshot, files, mesh, &source).map_err(|message| problems.add(&at.field(field), message)).ok()
    };
    let (cert, key) = (load(cert, "cert"), load(key, "key"));
    let (Some(cert), Some(key)) = (cert, key) else { return };
    for problem in check_ca_pair(&cert, &key, Timestamp::now()) {
        let cert = at.field("cert");
        match problem.index {
            Some(index) => problems.add(&cert.index(index), problem.to_string()),
            None => problems.add(&cert, problem.to_string()),
        }
    }
}
