//! References of resources to Secrets: who may add them, and to which Secrets.
//!
//! **Invariant:** no resource references a Secret of the control plane; only the mTLS backends of a Mesh reference the
//! Secrets of its CA.
//! **Invariant:** the private key of a CA is used for that CA only. The key of a generated CA is known by its owner.
//! **Invariant:** a reference is added only by a user who may read Secrets. Every author who may write the resource may
//! keep its existing references.

use std::collections::BTreeSet;

use kodiak_kinds::kinds;
use kodiak_model::{
    Checked, Kind, Problem, Problems, ResourceKey, Scope,
    kinds::mesh_identity::MeshIdentity,
    source_walk::{FoundSource, SourceLocation, has_sources, sources},
};
use kodiak_store::{Record, Snapshot};

use crate::{FileSources, GeneratedCa, Refusal, Stage, SystemSecret, ca::ca_sources};

const MESH: &str = "Mesh";
const IDENTITY: &str = "MeshIdentity";

/// Further rights of the author of a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights {
    /// May read Secrets, and so reference them.
    pub secrets: bool,
}

impl Rights {
    pub const ALL: Self = Self { secrets: true };
}

/// Rejects references that this author may not add, and those that are never allowed. File paths are checked without
/// access to the file.
pub(crate) fn check(
    snapshot: &Snapshot,
    files: &FileSources,
    checked: &Checked,
    old: Option<&Record>,
    rights: Rights,
) -> Result<(), Refusal> {
    let kind = checked.kind;
    if !has_sources(kind) {
        return Ok(());
    }
    let found = sources_of(kind, checked.spec());
    let mesh = if kind.scope == Scope::Mesh { &checked.mesh } else { &checked.name };
    let mut problems = Problems::default();
    for source in &found {
        if let SourceLocation::File(path) = &source.named
            && let Err(message) = files.check(path)
        {
            problems.push(Problem { path: source.path.clone(), message });
        }
        let SourceLocation::Secret(name) = &source.named else { continue };
        let ca = ca_kind(kind, source);
        if let Err(message) = may_refer(snapshot, mesh, name, ca) {
            problems.push(Problem { path: source.path.clone(), message });
        }
        if let Some(ca) = ca.filter(|_| is_key(source))
            && let Some(user) = other_user(snapshot, mesh, name, ca)
        {
            let message = format!(
                "the Secret {name:?} is also used by {user}, and the private key of a CA may only be used for that CA; use another Secret for one of them"
            );
            problems.push(Problem { path: source.path.clone(), message });
        }
    }
    if !problems.is_empty() {
        return Err(Refusal::invalid(if old.is_none() { Stage::Create } else { Stage::Update }, problems));
    }
    if !rights.secrets {
        check_author(kind, &found, old)?;
    }
    Ok(())
}

/// Checked again when a Secret is read for a proxy: the stored resource may be older than the rules.
pub fn may_be_sent(snapshot: &Snapshot, mesh: &str, secret: &str) -> Result<(), String> {
    may_refer(snapshot, mesh, secret, None)
}

/// `ca`: the kind whose CA the reference is for.
fn may_refer(snapshot: &Snapshot, mesh: &str, secret: &str, ca: Option<&str>) -> Result<(), String> {
    match SystemSecret::of(&ResourceKey::in_mesh("Secret", mesh, secret)) {
        Some(SystemSecret::MeshCa) if ca == Some(MESH) => return Ok(()),
        Some(system) => {
            let purpose = system.purpose();
            return Err(format!(
                "the Secret {secret:?} belongs to the control plane (for {purpose}) and cannot be referenced; use another Secret"
            ));
        }
        None => (),
    }
    match ca_of_key(snapshot, mesh, secret) {
        Some((kind, user)) if ca != Some(kind) => Err(format!(
            "the Secret {secret:?} is the private key of {user} and cannot be referenced; use another Secret"
        )),
        _ => Ok(()),
    }
}

/// New references require the right to read their target.
fn check_author(kind: &Kind, found: &[FoundSource], old: Option<&Record>) -> Result<(), Refusal> {
    let old = old.map(|old| sources_of(kind, &old.spec)).unwrap_or_default();
    let known: BTreeSet<_> = old.iter().filter_map(|source| Some((source.field(), outside(source)?))).collect();
    let mut problems = Problems::default();
    for source in found {
        let Some(named) = outside(source) else { continue };
        if !known.contains(&(source.field(), named)) {
            let message = format!(
                "adding a reference to {named} requires the right to read Secrets (access adminResources); ask an administrator to add it"
            );
            problems.push(Problem { path: source.path.clone(), message });
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(Refusal::Denied { problems }) }
}

/// A target outside the document.
fn outside(source: &FoundSource) -> Option<Outside<'_>> {
    match &source.named {
        SourceLocation::Secret(name) => Some(Outside("Secret", name)),
        SourceLocation::File(path) => Some(Outside("file", path)),
        SourceLocation::EnvVar(name) => Some(Outside("environment variable", name)),
        SourceLocation::Inline(_) => None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Outside<'a>(&'static str, &'a str);

impl std::fmt::Display for Outside<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the {} {:?}", self.0, self.1)
    }
}

fn sources_of(kind: &Kind, spec: &str) -> Vec<FoundSource> {
    serde_json::from_str(spec).map(|spec| sources(kind, &spec)).unwrap_or_default()
}

/// The kind, if the source belongs to a CA. The control plane reads such a source and never sends it.
fn ca_kind(kind: &Kind, source: &FoundSource) -> Option<&'static str> {
    match kind.name {
        MESH if source.pointer.starts_with("/mtls/backends/") => Some(MESH),
        IDENTITY if source.pointer.starts_with("/provider/bundled/ca/") => Some(IDENTITY),
        _ => None,
    }
}

fn is_key(source: &FoundSource) -> bool {
    matches!(source.pointer.rsplit('/').next(), Some("key" | "privateKey"))
}

/// The CA of the mesh whose private key is in this Secret, and its kind.
fn ca_of_key(snapshot: &Snapshot, mesh: &str, secret: &str) -> Option<(&'static str, String)> {
    if let Some(spec) = snapshot.world().mesh(mesh) {
        let mut backends = spec.mtls.iter().flat_map(|mtls| &mtls.backends);
        let key_of = |backend| ca_sources(mesh, backend).ok()?.key.secret;
        if let Some(backend) = backends.find(|backend| key_of(backend).as_deref() == Some(secret)) {
            return Some((MESH, format!("the mTLS backend {:?} of mesh {mesh:?}", backend.name)));
        }
    }
    let mut identities = snapshot.world().list_in(IDENTITY, mesh);
    let identity = identities.find(|resource| {
        let identity = resource.spec::<MeshIdentity>();
        let bundled = identity.as_ref().and_then(|identity| identity.provider.as_ref()?.bundled.clone());
        let key = bundled.and_then(|bundled| bundled.ca?.private_key?.secret_ref).map(|reference| reference.name);
        // Also while the MeshIdentity generates no CA: the key of the last one is still there.
        let generated = GeneratedCa::of(snapshot, &resource.key, &resource.labels);
        let is_generated = || snapshot.get(generated.private_key()).is_some_and(|stored| generated.owns(stored));
        key.as_deref() == Some(secret) || *generated.private_key().name == *secret && is_generated()
    })?;
    Some((IDENTITY, format!("the MeshIdentity {:?}", &*identity.key.name)))
}

/// Whether a resource of the mesh references the Secret.
pub(crate) fn is_referenced(snapshot: &Snapshot, secret: &ResourceKey) -> bool {
    other_user(snapshot, &secret.mesh, &secret.name, "").is_some()
}

/// A resource of the mesh that references this Secret for anything but a CA of the kind `ca`.
fn other_user(snapshot: &Snapshot, mesh: &str, secret: &str, ca: &str) -> Option<String> {
    let kinds = kinds().iter().filter(|kind| kind.scope == Scope::Mesh && has_sources(kind));
    let mut records = kinds.flat_map(|kind| snapshot.list_in(kind.name, mesh).map(move |record| (kind, record)));
    let (kind, record) = records.find(|(kind, record)| {
        let refers = |source: &FoundSource| {
            source.named == SourceLocation::Secret(secret.to_owned()) && ca_kind(kind, source) != Some(ca)
        };
        sources_of(kind, &record.spec).iter().any(refers)
    })?;
    Some(format!("the {} {:?}", kind.name, &*record.key.name))
}
