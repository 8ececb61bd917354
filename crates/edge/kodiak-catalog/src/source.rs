//! Bytes of a data source, from any of its locations.

use base64::{Engine, prelude::BASE64_STANDARD};
use kodiak_model::{ResourceKey, data_source::DataSource};
use kodiak_store::Snapshot;

use crate::{FileSources, SystemSecret};

/// Reads a data source of a CA of this mesh. The error says why it cannot be read.
pub fn load_source(
    snapshot: &Snapshot,
    files: &FileSources,
    mesh: &str,
    source: &DataSource,
) -> Result<Vec<u8>, String> {
    let DataSource { secret, file, inline, inline_string } = source;
    if let Some(name) = secret {
        let key = ResourceKey::in_mesh("Secret", mesh, name);
        // Checked again here: the stored resource may be older than the rule.
        if SystemSecret::of(&key).is_some_and(|system| system != SystemSecret::MeshCa) {
            return Err(format!(
                "could not load data: the secret {name:?} belongs to the control plane; use another one"
            ));
        }
        snapshot
            .world()
            .secret(&key)
            .ok_or_else(|| format!("could not load data: there is no secret {name:?} in mesh {mesh:?}; apply it first"))
    } else if let Some(path) = file {
        files.read(path)
    } else if let Some(text) = inline_string {
        Ok(text.clone().into_bytes())
    } else if let Some(encoded) = inline {
        BASE64_STANDARD.decode(encoded).map_err(|error| format!("could not load data: not base64: {error}"))
    } else {
        Err("could not load data: no source is set; set a secret".to_owned())
    }
}
