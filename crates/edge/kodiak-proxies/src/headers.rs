//! Authentication of a stream by its headers, before its first message.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use kodiak_ads::{Closing, Credential};
use kodiak_tokens::MAX_TOKEN_BYTES;
use serde_json::{Map, Value};

use crate::{Registry, admission::closing, credential};

impl Registry {
    /// Verifies the token by itself, before anything of the stream is read. Whether it is valid for the proxy is decided
    /// with the first message, which names the proxy.
    pub(crate) fn verify_headers(&self, credential: &Credential) -> Result<(), Closing> {
        let verify =
            |mesh: &str| credential::verify_alone(&self.0.catalog, &self.0.settings, mesh, credential).map(drop);
        let verified = claimed_mesh(credential).map_or_else(|| self.of_any_mesh(verify), |mesh| verify(&mesh));
        verified.map_err(|reason| {
            let refused = closing(Closing::UNAUTHENTICATED, reason);
            self.refused(&refused);
            refused
        })
    }

    /// A token that names no mesh is signed by the key of its mesh, which is not known yet: the keys of all are tried.
    fn of_any_mesh(&self, verify: impl Fn(&str) -> Result<(), String>) -> Result<(), String> {
        let snapshot = self.0.catalog.store().snapshot();
        let mut refused = match verify("") {
            Ok(()) => return Ok(()),
            Err(reason) => reason,
        };
        for mesh in snapshot.list("Mesh") {
            match verify(&mesh.key.name) {
                Ok(()) => return Ok(()),
                Err(reason) => refused = reason,
            }
        }
        Err(refused)
    }
}

/// The mesh whose keys verify the token, as the unverified token claims. A token of another mesh fails verification.
fn claimed_mesh(credential: &Credential) -> Option<String> {
    let token = credential.0.as_deref().filter(|token| token.len() <= MAX_TOKEN_BYTES)?;
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let payload: Map<String, Value> = serde_json::from_slice(&payload).ok()?;
    let mesh = payload.iter().find(|(claim, _)| claim.eq_ignore_ascii_case("mesh"))?.1;
    mesh.as_str().filter(|mesh| !mesh.is_empty()).map(str::to_owned)
}
