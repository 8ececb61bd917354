//! Certificates and keys that a MeshExternalService refers to.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kodiak_catalog::{may_be_sent, spec_of};
use kodiak_model::{
    ResourceKey,
    kinds::{mesh_external_service::Source, secret::Secret},
};
use kodiak_store::Snapshot;

/// PEM, or why there is none. Nothing of what is there is in the reason.
pub(crate) fn read(snapshot: &Snapshot, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
    let Source { secret, inline, inline_string } = source;
    let bytes = if let Some(name) = secret {
        may_be_sent(snapshot, mesh, name)?;
        let record = snapshot.get(&ResourceKey::in_mesh("Secret", mesh, name));
        let secret = record.and_then(spec_of::<Secret>);
        let secret = secret.ok_or_else(|| format!("there is no Secret {name:?} in mesh {mesh:?}"))?;
        secret.data.bytes().map_err(|_| format!("the Secret {name:?} of mesh {mesh:?} is not base64"))?
    } else if let Some(text) = inline {
        STANDARD.decode(text.trim()).map_err(|_| "what is written inline is not base64".to_owned())?
    } else if let Some(text) = inline_string {
        text.clone().into_bytes()
    } else {
        return Err("neither secret, inline nor inlineString is written".to_owned());
    };
    String::from_utf8(bytes).map(Arc::from).map_err(|_| "what it refers to is no text".to_owned())
}
