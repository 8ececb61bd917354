//! Private keys in a Mesh. A Mesh is not secret, so they are moved to Secrets before it is stored.

use kodiak_model::{
    FieldPath, Problems, ResourceKey,
    data_source::DataSource,
    kinds::mesh::{BackendConf, Mesh, MtlsBackend, ProvidedCa},
    names,
};
use kodiak_store::{Snapshot, Write};
use serde_json::json;

use crate::{
    Catalog,
    ca::{PROVIDED, provided_key_secret},
    initial, load_source,
};

/// Replaces inline keys by references. Returns the writes of Secrets that do not have their key yet.
pub(super) fn move_to_secrets(
    catalog: &Catalog,
    snapshot: &Snapshot,
    name: &str,
    mesh: &mut Mesh,
    problems: &mut Problems,
) -> Vec<Write> {
    let mtls = FieldPath::ROOT.field("mtls");
    let at = mtls.field("backends");
    let backends = mesh.mtls.iter_mut().flat_map(|mtls| &mut mtls.backends).enumerate();
    backends
        .filter(|(_, backend)| backend.backend_type == PROVIDED)
        .filter_map(|(index, backend)| move_key(catalog, snapshot, name, backend, &at.index(index), problems))
        .collect()
}

fn move_key(
    catalog: &Catalog,
    snapshot: &Snapshot,
    mesh: &str,
    backend: &mut MtlsBackend,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) -> Option<Write> {
    let read = BackendConf::read::<ProvidedCa>(backend.conf.as_ref());
    // Even `skipValidation` does not allow a text that may or may not be a key.
    let read = read.map_err(|error| {
        problems.add(&at.field("conf"), format!("could not convert backend config: {error}"));
    });
    let key = read.ok()?.key.filter(|key| key.inline.is_some() || key.inline_string.is_some())?;
    // A Secret or a file takes precedence; the inline text would only be exposed.
    if key.secret.is_some() || key.file.is_some() {
        refer(backend, &DataSource { inline: None, inline_string: None, ..key });
        return None;
    }
    let secret = provided_key_secret(mesh, &backend.name);
    if let Some(fault) = names::fault(&secret) {
        let message =
            format!("the inline key would be stored in the secret {secret:?}, which is not a valid name: {fault}");
        problems.add(&at.field("name"), message);
        return None;
    }
    let bytes = match load_source(snapshot, &catalog.files, mesh, &key) {
        Ok(bytes) => bytes,
        Err(message) => {
            // Without `skipValidation` this was reported already.
            if !problems.iter().any(|known| known.message == message) {
                problems.add(&at.field("conf").field("key"), message);
            }
            return None;
        }
    };
    refer(backend, &DataSource { secret: Some(secret.clone()), ..DataSource::default() });
    let key = ResourceKey::in_mesh("Secret", mesh, &secret);
    if snapshot.world().secret(&key).is_some_and(|stored| stored == bytes) {
        return None;
    }
    Some(initial::secret(catalog, mesh, &secret, &bytes, snapshot.expect(&key)))
}

fn refer(backend: &mut MtlsBackend, source: &DataSource) {
    if let Some(BackendConf(conf)) = &mut backend.conf {
        conf["key"] = json!(source);
    }
}
