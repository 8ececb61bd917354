//! CAs of MeshIdentities. One fingerprint is one CA for ever, so a CA is read once.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use kodiak_catalog::{ca_in_use, load_identity_ca};
use kodiak_crypto::CaPair;
use kodiak_model::{
    Kri, ResourceKey,
    kinds::mesh_identity::{KIND, MeshIdentity},
};
use kodiak_store::Snapshot;

use crate::{MeshCas, issuer::Issuer, with_causes};

/// By mesh, fingerprint of the CA, and lifetime of leaves in seconds.
#[derive(Default)]
pub(crate) struct Cache(BTreeMap<(Arc<str>, Arc<str>, u64), Arc<Issuer>>);

impl Cache {
    /// Drops the keys of deleted meshes.
    pub(crate) fn forget_missing(&mut self, snapshot: &Snapshot) {
        self.0.retain(|(mesh, _, _), _| snapshot.get(&ResourceKey::global("Mesh", mesh)).is_some());
    }
}

/// A CA that a MeshIdentity has or had, or an error that says what to do.
pub(crate) fn of_identity(
    mesh_cas: &MeshCas,
    snapshot: &Snapshot,
    mesh: &Arc<str>,
    (kri, ca): (&str, &Arc<str>),
    seconds: u64,
) -> Result<Arc<Issuer>, String> {
    let key = (mesh.clone(), ca.clone(), seconds);
    if let Some(known) = mesh_cas.made().identity_cas.0.get(&key) {
        return Ok(known.clone());
    }
    let pair = read(mesh_cas, snapshot, mesh, kri, ca)
        .map_err(|error| format!("the CA of MeshIdentity {kri} in mesh {mesh:?} is not usable: {error}"))?;
    let issuer = Arc::new(Issuer::of_identity(pair, Duration::from_secs(seconds)));
    mesh_cas.made().identity_cas.0.insert(key, issuer.clone());
    Ok(issuer)
}

/// The copy that remains while the CA is in use, else what the MeshIdentity refers to.
fn read(mesh_cas: &MeshCas, snapshot: &Snapshot, mesh: &str, kri: &str, ca: &str) -> Result<CaPair, String> {
    let copy = snapshot.world().secret(&ResourceKey::in_mesh("Secret", mesh, &ca_in_use(ca)));
    let pair = if let Some(text) = copy {
        CaPair::from_pem(&text, &text)
    } else {
        let ca = referenced(mesh_cas, snapshot, mesh, kri)?;
        CaPair::from_pem(&ca.cert, &ca.key)
    };
    let pair = pair.map_err(|error| with_causes(&error))?;
    if pair.fingerprint() == ca {
        Ok(pair)
    } else {
        Err("it was replaced before all proxies trust the new one; restore it until they do".to_owned())
    }
}

fn referenced(
    mesh_cas: &MeshCas,
    snapshot: &Snapshot,
    mesh: &str,
    kri: &str,
) -> Result<kodiak_catalog::IdentityCa, String> {
    let mut all = snapshot.world().list_in(KIND.name, mesh);
    let is_it = |labels: &_, name: &_| Kri::of(&KIND, mesh, name, labels).is_some_and(|found| found.to_string() == kri);
    let identity =
        all.find(|resource| is_it(&resource.labels, &resource.key.name)).ok_or("the MeshIdentity is gone")?;
    let spec = identity.spec::<MeshIdentity>().ok_or("the MeshIdentity is unreadable; apply it again")?;
    let bundled = spec.provider.as_ref().and_then(|provider| provider.bundled.as_ref());
    let bundled = bundled.ok_or("it has no bundled provider any more")?;
    load_identity_ca(snapshot, &mesh_cas.files, &identity.key, &identity.labels, bundled)
}
