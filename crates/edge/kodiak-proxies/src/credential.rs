//! Verification of dataplane tokens, by themselves and against the Dataplane of the proxy.

use jiff::Timestamp;
use kodiak_ads::Credential;
use kodiak_catalog::Catalog;
use kodiak_model::{ProxyKey, kinds::dataplane::Admission, labels};
use kodiak_tokens::{
    DataplaneClaims, ProxyFacts, TokenError, Verified, check_dataplane, check_dataplane_name, names::TokenKind,
    verify_dataplane,
};

use crate::{
    dataplane::EffectiveDataplane,
    settings::{Authn, ProxySettings},
};

/// Claims of a verified token. Empty when proxy authentication is disabled.
pub(crate) struct VerifiedToken(Option<Verified<DataplaneClaims>>);

/// Verifies the token by itself: signature, times, revocation, and the name it is for. To be called before anything else
/// that the proxy sent is read, so that a client without a token causes no work.
pub(crate) fn verify(
    catalog: &Catalog,
    settings: &ProxySettings,
    key: &ProxyKey,
    credential: &Credential,
) -> Result<VerifiedToken, String> {
    let verified = verify_alone(catalog, settings, &key.mesh, credential)?;
    if let Some(verified) = &verified {
        check_dataplane_name(&verified.claims, &key.mesh, &key.name).map_err(failed)?;
    }
    Ok(VerifiedToken(verified))
}

/// The same for an open stream. A clock that was set back since its admission revokes nothing.
pub(crate) fn verify_again(
    catalog: &Catalog,
    settings: &ProxySettings,
    key: &ProxyKey,
    credential: &Credential,
) -> Result<VerifiedToken, String> {
    let now = (settings.now)();
    let verify = |now| verify_at(catalog, settings, &key.mesh, credential, now);
    let verified = match verify(now) {
        Err(Denied::Token(TokenError::NotYetValid(from))) => verify(from),
        verified => verified,
    };
    let verified = verified.map_err(String::from)?;
    if let Some(verified) = &verified {
        check_dataplane_name(&verified.claims, &key.mesh, &key.name).map_err(failed)?;
    }
    Ok(VerifiedToken(verified))
}

/// The same without a name: only the token, with the keys of this mesh.
pub(crate) fn verify_alone(
    catalog: &Catalog,
    settings: &ProxySettings,
    mesh: &str,
    credential: &Credential,
) -> Result<Option<Verified<DataplaneClaims>>, String> {
    verify_at(catalog, settings, mesh, credential, (settings.now)()).map_err(String::from)
}

enum Denied {
    NoToken,
    Token(TokenError),
}

impl From<Denied> for String {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::NoToken => failed("there is no token; send one dataplane token in `authorization`"),
            Denied::Token(error) => failed(error),
        }
    }
}

fn verify_at(
    catalog: &Catalog,
    settings: &ProxySettings,
    mesh: &str,
    credential: &Credential,
    now: Timestamp,
) -> Result<Option<Verified<DataplaneClaims>>, Denied> {
    match settings.authn {
        Authn::None => Ok(None),
        Authn::DataplaneToken => {
            let token = credential.0.as_deref().filter(|token| !token.is_empty()).ok_or(Denied::NoToken)?;
            let keys = catalog.token_keys(TokenKind::Dataplane { mesh });
            verify_dataplane(token, &keys, now).map(Some).map_err(Denied::Token)
        }
    }
}

impl VerifiedToken {
    /// Expiration time of the token.
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.0.as_ref().map(|verified| verified.expires)
    }

    /// Fields of the Dataplane that the token binds. It binds nothing without authentication.
    pub(crate) fn admission(&self) -> Admission {
        let Some(Verified { claims, .. }) = &self.0 else { return Admission::default() };
        let DataplaneClaims { name, mesh: _, tags, kind: _, workload, labels } = claims;
        let workload = (!workload.is_empty()).then(|| labels::WORKLOAD.to_owned());
        Admission {
            tags: tags.keys().cloned().collect(),
            labels: labels.keys().cloned().chain(workload).collect(),
            name: !name.is_empty(),
            ..Admission::default()
        }
    }

    /// Checks every claim against the Dataplane. No MeshIdentity has a part in it: one that were to close streams would take
    /// proxies out of the rollout that moves them to it.
    pub(crate) fn check(&self, key: &ProxyKey, dataplane: &EffectiveDataplane) -> Result<(), String> {
        let Some(verified) = &self.0 else { return Ok(()) };
        let tags: Vec<_> = dataplane.spec.tag_sets().collect();
        let facts = ProxyFacts { name: &key.name, mesh: &key.mesh, tags: &tags, labels: &dataplane.labels };
        check_dataplane(&verified.claims, &facts).map_err(failed)
    }
}

fn failed(reason: impl std::fmt::Display) -> String {
    format!("authentication failed: {reason}")
}
