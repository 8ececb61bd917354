//! Certificates and keys that a MeshExternalService refers to.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kodiak_model::{
    ResourceKey,
    kinds::{mesh_external_service::Source, secret::Secret},
};
use kodiak_store::Snapshot;

use crate::may_be_sent;

/// PEM, or why there is none. The reason never repeats the content.
pub fn external_source(snapshot: &Snapshot, mesh: &str, source: &Source) -> Result<Arc<str>, String> {
    let Source { secret, inline, inline_string } = source;
    let bytes = if let Some(name) = secret {
        may_be_sent(snapshot, mesh, name)?;
        let secret = snapshot.world().get(&ResourceKey::in_mesh("Secret", mesh, name));
        let secret = secret.and_then(|secret| secret.spec::<Secret>());
        let secret = secret.ok_or_else(|| format!("Secret {name:?} does not exist in mesh {mesh:?}"))?;
        secret.data.bytes().map_err(|_| format!("Secret {name:?} of mesh {mesh:?} is not base64"))?
    } else if let Some(text) = inline {
        STANDARD.decode(text.trim()).map_err(|_| "inline is not base64".to_owned())?
    } else if let Some(text) = inline_string {
        text.clone().into_bytes()
    } else {
        return Err("one of secret, inline and inlineString must be set".to_owned());
    };
    String::from_utf8(bytes).map(Arc::from).map_err(|_| "the content is not UTF-8 text".to_owned())
}
