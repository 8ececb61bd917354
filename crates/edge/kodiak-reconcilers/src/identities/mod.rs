//! Reconciler of MeshIdentities: generates CAs, creates MeshTrusts, writes conditions, and records which MeshIdentities,
//! CAs of backends and trusted CAs take part in the rollout of their mesh (`document::IDENTITIES`). The rollout decides when.
//!
//! **Invariant:** a CA whose certificates may be in use stays usable and trusted: a copy of it remains until no step of the
//! rollout names it, and a source that cannot be read does not replace the CA that was read before.
//! **Invariant:** a fault of one MeshIdentity is a condition of that one: the others of its mesh are reconciled.
//! **Invariant:** nothing is decided while a record of the mesh cannot be read.

mod backends;
mod finding;
mod trust;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use kodiak_catalog::{CA_IN_USE, Catalog, Refusal, ca_in_use};
use kodiak_identity::Identity;
use kodiak_model::{
    Condition, ResourceKey,
    kinds::{
        mesh::{Mesh, MeshServicesMode},
        mesh_identity::MeshIdentityStatus,
    },
};
use kodiak_rollout::{AppliedProvider, DesiredIdentities, Issuers, Rollout, RolloutRecord};
use kodiak_store::{Expect, Leader, Snapshot, StoreError, Transaction, Write};
use kodiak_world::{
    Resource, World,
    document::{self, IDENTITIES, ROLLOUT},
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{documents, leader::PAUSE};
use backends::BackendCas;
use finding::Finding;
use trust::TrustedCertificates;

/// Changes are batched for this time.
const QUIET: Duration = Duration::from_millis(50);
/// Interval at which CAs in files and environment variables are read again: nothing tells when they change.
const REREAD: Duration = Duration::from_secs(30);

/// State of a mesh that its MeshIdentities are reconciled with.
struct Situation<'a> {
    catalog: &'a Catalog,
    snapshot: &'a Snapshot,
    mesh: &'a Arc<str>,
    /// The zone of the control plane.
    zone: &'a str,
    mode: MeshServicesMode,
    trusted: TrustedCertificates,
    /// As last recorded.
    before: DesiredIdentities,
    now: Timestamp,
}

/// Runs until `drain`, or until the store is closed.
pub async fn run(catalog: Catalog, zone: Arc<str>, drain: CancellationToken) -> Result<(), StoreError> {
    let store = catalog.store().clone();
    let mut leadership = store.leadership();
    let mut watch = store.watch(0)?;
    let mut reread = tokio::time::interval(REREAD);
    let mut dirty: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut due: Option<Instant> = None;
    loop {
        tokio::select! {
            biased;
            () = drain.cancelled() => return Ok(()),
            change = watch.next() => {
                let affected = affected_mesh(&change?.key);
                if affected.as_ref().is_some_and(|mesh| dirty.insert(mesh.clone())) && due.is_none() {
                    due = Some(Instant::now() + QUIET);
                }
                continue;
            }
            _ = leadership.changed() => (),
            _ = reread.tick() => {
                dirty.extend(with_cas(store.snapshot().world()));
                due = Some(Instant::now());
                continue;
            }
            () = crate::services::until(due) => (),
        }
        due = None;
        let Some(leader) = store.leader() else { continue };
        for mesh in std::mem::take(&mut dirty) {
            match reconcile(&catalog, &leader, &mesh, &zone).await {
                Ok(()) => (),
                // The newer record arrives through the watch.
                Err(Refusal::Store(StoreError::Conflict(_))) => drop(dirty.insert(mesh)),
                Err(error) => {
                    tracing::warn!(%error, mesh = &*mesh, "failed to reconcile MeshIdentities, retrying");
                    dirty.insert(mesh);
                }
            }
        }
        if !dirty.is_empty() {
            due = Some(Instant::now() + PAUSE);
        }
    }
}

fn affected_mesh(key: &ResourceKey) -> Option<Arc<str>> {
    match &*key.kind {
        "Mesh" => Some(key.name.clone()),
        "MeshIdentity" | "MeshTrust" | "Secret" => Some(key.mesh.clone()),
        // CAs that no step names any more are deleted.
        _ if document::name(key) == Some(ROLLOUT) => Some(key.mesh.clone()),
        _ => None,
    }
}

/// Meshes that have, or had, MeshIdentities or MeshTrusts, and those with backends.
fn with_cas(world: &World) -> BTreeSet<Arc<str>> {
    let resources = ["MeshIdentity", "MeshTrust"].into_iter().flat_map(|kind| world.list(kind));
    let has_backends = |mesh: &Mesh| mesh.mtls.iter().any(|mtls| !mtls.backends.is_empty());
    let meshes = world.list("Mesh").filter(|mesh| mesh.spec::<Mesh>().is_some_and(|spec| has_backends(&spec)));
    let meshes = meshes.map(|mesh| mesh.key.name.clone());
    resources.map(|resource| resource.key.mesh.clone()).chain(meshes).collect()
}

/// Brings the MeshIdentities of a mesh up to date. What a write changes is seen by the next call, which its change causes.
async fn reconcile(catalog: &Catalog, leader: &Leader, mesh: &Arc<str>, zone: &str) -> Result<(), Refusal> {
    let catalog = &catalog.of(leader);
    let snapshot = leader.snapshot();
    let world = snapshot.world();
    let Some(spec) = world.mesh(mesh) else { return Ok(()) };
    let stored = world.get(&document::key(mesh, IDENTITIES));
    let step = world.get(&document::key(mesh, ROLLOUT));
    let Some(before) = stored.map_or(Some(DesiredIdentities::default()), |stored| documents::read(stored)) else {
        return Ok(());
    };
    let Some(step) = step.map_or(Some(None), |step| documents::read(step).map(Some)) else { return Ok(()) };
    let situation = Situation {
        catalog,
        snapshot: &snapshot,
        mesh,
        zone,
        mode: world.mesh_services_mode(mesh),
        trusted: TrustedCertificates::of(world, mesh),
        before,
        now: Timestamp::now(),
    };
    let BackendCas { usable: backends, writes } = BackendCas::of(&situation, &spec);
    if !writes.is_empty() {
        leader.commit(Transaction(writes)).await?;
    }
    let mut conflict = None;
    let trust_domains = situation.trusted.domains();
    let ignored = situation.trusted.ignored.clone();
    let mut desired = DesiredIdentities { trust_domains, backends, ignored, ..DesiredIdentities::default() };
    for resource in world.list_in("MeshIdentity", mesh) {
        let Some(identity) = Identity::of(resource) else { continue };
        let mut finding = finding::of(&situation, resource, &identity).await;
        match commit(leader, resource, &mut finding).await {
            Ok(()) => (),
            Err(error @ StoreError::Conflict(_)) => {
                conflict = Some(error);
                finding = situation.refused(&identity, "");
            }
            Err(error) => {
                tracing::warn!(%error, mesh = &**mesh, name = &*resource.key.name, "failed to persist what a MeshIdentity needs");
                finding = situation.refused(&identity, &error.to_string());
                commit(leader, resource, &mut finding).await?;
            }
        }
        if let Some(applied) = finding.applied {
            situation.retain_trust(&applied.trust_domain, applied.provider.as_ref(), &mut desired);
            desired.identities.push(Arc::new(applied));
        }
    }
    let unused: Vec<Write> = unused_cas(world, mesh, &desired, step.as_ref()).collect();
    if !unused.is_empty() {
        leader.commit(Transaction(unused)).await?;
    }
    if desired != situation.before {
        let version = stored.map(|stored| stored.version);
        let names: Vec<&str> = desired.identities.iter().map(|identity| &*identity.name).collect();
        for fault in desired.ignored.iter().filter(|fault| !situation.before.ignored.contains(fault)) {
            tracing::warn!(mesh = &**mesh, fault = &**fault, "MeshTrust has a bundle that is not trusted");
        }
        if documents::write(leader, mesh, IDENTITIES, version, &desired).await? {
            let trust_domains: Vec<&str> = desired.trust_domains.keys().map(|domain| &**domain).collect();
            let (identities, trust_domains) = (names.join(","), trust_domains.join(","));
            tracing::info!(mesh = &**mesh, identities, trust_domains, "MeshIdentities changed");
        }
    }
    conflict.map_or(Ok(()), |conflict| Err(conflict.into()))
}

/// Writes what the MeshIdentity needs, and its conditions.
async fn commit(leader: &Leader, resource: &Resource, finding: &mut Finding) -> Result<(), StoreError> {
    let mut writes = std::mem::take(&mut finding.writes);
    writes.extend(finding.conditions.take().and_then(|conditions| status(resource, conditions)));
    if !writes.is_empty() {
        leader.commit(Transaction(writes)).await?;
    }
    Ok(())
}

impl Situation<'_> {
    /// A CA that is applied stays trusted: without a MeshTrust, its certificates would be refused at once.
    fn retain_trust(&self, domain: &Arc<str>, provider: Option<&AppliedProvider>, desired: &mut DesiredIdentities) {
        let Some(AppliedProvider::Bundled { ca, .. }) = provider else { return };
        let pair = finding::ca_of_fingerprint(self.snapshot, self.mesh, ca);
        let trusted = self.trusted.of_domain(domain);
        if pair.is_none_or(|pair| !pair.is_trusted_by(&trusted))
            && let Some(before) = self.before.trust_domains.get(domain)
        {
            desired.trust(domain.clone(), before.iter().cloned());
        }
    }
}

/// `None` if they are stored already.
fn status(resource: &Resource, conditions: Vec<Condition>) -> Option<Write> {
    let status = MeshIdentityStatus { conditions };
    (resource.status_version.is_none() || *resource.status::<MeshIdentityStatus>() != status).then(|| {
        Write::PutStatus {
            key: resource.key.clone(),
            status: serde_json::to_string(&status).expect("a status has text keys").into(),
            expect: resource.status_version.map_or(Expect::Absent, Expect::Version),
        }
    })
}

/// Deletes copies of CAs that neither the rollout, nor a step that proxies may be at, nor its target names.
fn unused_cas<'a>(
    world: &'a World,
    mesh: &'a str,
    desired: &DesiredIdentities,
    record: Option<&RolloutRecord>,
) -> impl Iterator<Item = Write> + use<'a> {
    let target = Issuers { identities: desired.identities.clone(), ..Issuers::default() };
    let steps: Vec<&Rollout> = record.into_iter().flat_map(RolloutRecord::steps).collect();
    let issuers: Vec<&Issuers> = steps.iter().flat_map(|step| step.all_issuers()).chain([&target]).collect();
    let identities = issuers.iter().flat_map(|issuers| &issuers.identities);
    let of_identities = identities.filter_map(|identity| match identity.provider.as_ref()? {
        AppliedProvider::Bundled { ca, .. } => Some(ca),
        AppliedProvider::Spire { .. } => None,
    });
    let backends = steps.iter().flat_map(|step| &step.trust);
    let backends = backends.chain(issuers.iter().filter_map(|issuers| issuers.signer.as_ref()));
    let of_backends = backends.filter_map(|backend| backend.ca.as_ref()).chain(desired.backends.values());
    let used: BTreeSet<String> = of_identities.chain(of_backends).map(|ca| ca_in_use(ca)).collect();
    let copies = world.list_in("Secret", mesh).filter(|secret| secret.key.name.starts_with(CA_IN_USE));
    let unused = copies.filter(move |secret| !used.contains(&*secret.key.name));
    unused.map(|secret| Write::Delete { key: secret.key.clone(), expect: Expect::Version(secret.version) })
}
