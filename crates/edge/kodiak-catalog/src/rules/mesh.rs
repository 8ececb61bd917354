//! Mesh: its authority can be used and stays the same while it is in use; it goes only when it is empty.

use std::{fs, io};

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use kodiak_crypto::check_ca_pair;
use kodiak_model::{
    Checked, FieldPath, Problems, ResourceKey,
    data_source::DataSource,
    kinds::mesh::{BackendConf, Mesh, MtlsBackend, ProvidedCa, new_name_fault},
    language,
};
use kodiak_store::{Record, Snapshot};

use crate::{Catalog, Refusal, Stage, authority, signing::secret_data, spec_of};

/// Certificates and keys are far smaller.
const MAX_FILE: u64 = 1024 * 1024;

pub(super) fn before_put(snapshot: &Snapshot, checked: &mut Checked, old: Option<&Record>) -> Result<(), Refusal> {
    let mut mesh: Mesh = language::decode(&checked.spec).map_err(Refusal::make)?;
    let mut problems = Problems::default();
    if old.is_none()
        && let Some(fault) = new_name_fault(&checked.name)
    {
        problems.add(&FieldPath::NAME, fault);
    }
    let mtls = mesh.mtls.clone().unwrap_or_default();
    if !mtls.skip_validation {
        if let Some(old) = old.and_then(spec_of::<Mesh>) {
            check_same_authority(&old, &mesh, &mut problems);
        }
        for (index, backend) in mtls.backends.iter().enumerate().filter(|(_, b)| b.backend_type == authority::PROVIDED)
        {
            check_provided(snapshot, &checked.name, index, backend, &mut problems);
        }
    }
    if !problems.is_empty() {
        let stage = if old.is_none() { Stage::Create } else { Stage::Update };
        return Err(Refusal::invalid(stage, problems));
    }
    mesh.fill_defaults();
    checked.spec = language::to_json(&mesh);
    Ok(())
}

/// Another authority would cut off every proxy that has a certificate of the old one.
fn check_same_authority(old: &Mesh, new: &Mesh, problems: &mut Problems) {
    if let (Some(was), Some(is)) = (old.enabled_backend(), new.enabled_backend())
        && was.name != is.name
    {
        let message = "Changing CA when mTLS is enabled is forbidden. Disable mTLS first and then change the CA";
        let mtls = FieldPath::ROOT.field("mtls");
        problems.add(&mtls.field("enabledBackend"), message);
    }
}

fn check_provided(snapshot: &Snapshot, mesh: &str, index: usize, backend: &MtlsBackend, problems: &mut Problems) {
    let ProvidedCa { cert, key } = BackendConf::read(backend.conf.as_ref()).unwrap_or_default();
    let mtls = FieldPath::ROOT.field("mtls");
    let backends = mtls.field("backends");
    let backend_at = backends.index(index);
    let at = backend_at.field("conf");
    let cert = load(snapshot, mesh, cert.as_ref(), &at.field("cert"), problems);
    let key = load(snapshot, mesh, key.as_ref(), &at.field("key"), problems);
    if let (Some(cert), Some(key)) = (cert, key) {
        for problem in check_ca_pair(&cert, &key, Timestamp::now()) {
            let cert = at.field("cert");
            match problem.index {
                Some(index) => problems.add(&cert.index(index), problem.to_string()),
                None => problems.add(&cert, problem.to_string()),
            }
        }
    }
}

fn load(
    snapshot: &Snapshot,
    mesh: &str,
    source: Option<&DataSource>,
    at: &FieldPath<'_>,
    problems: &mut Problems,
) -> Option<Vec<u8>> {
    // What is missing, the check of the document has named already.
    let DataSource { secret, file, inline, inline_string } = source?;
    let loaded = if let Some(name) = secret {
        let record = snapshot.get(&ResourceKey::in_mesh("Secret", mesh, name));
        record
            .and_then(secret_data)
            .ok_or_else(|| format!("could not load data: there is no secret {name:?} in mesh {mesh:?}; apply it first"))
    } else if let Some(path) = file {
        read_file(path).map_err(|error| format!("could not load data: {path}: {error}"))
    } else if let Some(text) = inline_string {
        Ok(text.clone().into_bytes())
    } else if let Some(encoded) = inline {
        BASE64_STANDARD.decode(encoded).map_err(|error| format!("could not load data: not base64: {error}"))
    } else {
        return None;
    };
    loaded.map_err(|message| problems.add(at, message)).ok()
}

/// The path comes from a user: devices and huge files are not read.
fn read_file(path: &str) -> io::Result<Vec<u8>> {
    let found = fs::metadata(path)?;
    if !found.is_file() || found.len() > MAX_FILE {
        return Err(io::Error::other(format!("not a file of at most {MAX_FILE} bytes")));
    }
    fs::read(path)
}

pub(super) fn before_delete(catalog: &Catalog, snapshot: &Snapshot, name: &str) -> Result<(), Refusal> {
    if catalog.settings.unsafe_delete || snapshot.list_in("Dataplane", name).next().is_none() {
        return Ok(());
    }
    let mut problems = Problems::default();
    problems.add(&FieldPath::MESH, "unable to delete mesh, there are still some dataplanes attached");
    Err(Refusal::invalid(Stage::Delete, problems))
}
