//! Verification of dataplane tokens, by themselves and against the Dataplane of the proxy.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use kodiak_ads::Credential;
use kodiak_catalog::Catalog;
use kodiak_model::{
    ProxyKey,
    go_template::Template,
    kinds::dataplane::Admission,
    kinds::mesh_identity::{DEFAULT_PATH_ON_UNIVERSAL, FUNCTIONS, MeshIdentity, PATH_FIELDS},
    labels,
};
use kodiak_store::Snapshot;
use kodiak_tokens::{
    DataplaneClaims, ProxyFacts, TokenError, Verified, check_dataplane, check_dataplane_name, names::TokenKind,
    verify_dataplane,
};

use crate::{
    dataplane::EffectiveDataplane,
    settings::{Authn, ProxySettings},
    stored,
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

    /// Fields of the Dataplane that the token binds. None without authentication.
    pub(crate) fn admission(&self) -> Admission {
        let Some(Verified { claims, .. }) = &self.0 else { return Admission::default() };
        let DataplaneClaims { name, mesh: _, tags, kind: _, workload, labels } = claims;
        let workload = (!workload.is_empty()).then(|| labels::WORKLOAD.to_owned());
        Admission {
            tags: tags.keys().cloned().collect(),
            labels: labels.keys().cloned().chain(workload).collect(),
            name: !name.is_empty(),
        }
    }

    /// Checks every claim against the Dataplane.
    pub(crate) fn check(
        &self,
        snapshot: &Snapshot,
        key: &ProxyKey,
        dataplane: &EffectiveDataplane,
    ) -> Result<(), String> {
        let Some(verified) = &self.0 else { return Ok(()) };
        let tags: Vec<_> = dataplane.spec.tag_sets().collect();
        let facts = ProxyFacts {
            name: &key.name,
            mesh: &key.mesh,
            tags: &tags,
            labels: &dataplane.labels,
            identity_from_workload: identity_is_workload(snapshot, &key.mesh, dataplane),
        };
        check_dataplane(&verified.claims, &facts).map_err(failed)
    }
}

fn failed(reason: impl std::fmt::Display) -> String {
    format!("authentication failed: {reason}")
}

/// Whether the SPIFFE ID of this proxy is made from its label `kuma.io/workload`.
pub(crate) fn identity_is_workload(snapshot: &Snapshot, mesh: &str, dataplane: &EffectiveDataplane) -> bool {
    let mut best: Option<(usize, Arc<MeshIdentity>)> = None;
    // In the order of names: the first of equal specificity wins.
    for identity in stored::identities(snapshot, mesh) {
        let selector = identity.selector.as_ref().and_then(|selector| selector.dataplane.as_ref());
        let Some(selector) = selector.filter(|selector| selector.matches(&dataplane.labels)) else { continue };
        let specificity = selector.specificity();
        if best.as_ref().is_none_or(|(other, _)| specificity > *other) {
            best = Some((specificity, identity));
        }
    }
    best.is_some_and(|(_, identity)| {
        let path = identity.spiffe_id.as_ref().and_then(|id| id.path.as_deref());
        uses_workload(path.unwrap_or(DEFAULT_PATH_ON_UNIVERSAL))
    })
}

/// Renders the template with two workloads and compares, so that no syntax of a template is overlooked.
fn uses_workload(path: &str) -> bool {
    let Ok(template) = Template::parse(path, &FUNCTIONS) else { return false };
    let render = |workload: &str| {
        let value = |field: &str| if field == "Workload" { workload.to_owned() } else { String::new() };
        let fields: BTreeMap<_, _> = PATH_FIELDS.iter().map(|field| (*field, value(field))).collect();
        let label = |_: &str, key: &str| Ok(if key == labels::WORKLOAD { workload.to_owned() } else { String::new() });
        template.render(&fields, &label).ok()
    };
    render("a") != render("b")
}

#[cfg(test)]
mod tests {
    use super::uses_workload;

    #[test]
    fn paths_that_name_the_workload_are_found() {
        for path in ["/w/{{ .Workload }}", "/w/{{ label \"kuma.io/workload\" }}", "/{{.Workload}}/{{ label \"team\" }}"]
        {
            assert!(uses_workload(path), "{path}");
        }
        for path in ["/fixed", "/{{ label \"team\" }}", "/{{ .Namespace }}", "/{{ .Workload"] {
            assert!(!uses_workload(path), "{path}");
        }
    }
}
