//! Closing streams that would not be admitted any more.

use std::{collections::BTreeSet, sync::Arc};

use kodiak_ads::{Closing, Credential};
use kodiak_model::{ProxyKey, ResourceKey};

use crate::{Registry, credential, sessions::Presented, stored};

/// Streams whose token may not be good any more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recheck {
    All,
    Mesh(Arc<str>),
    Proxy(ProxyKey),
}

impl Recheck {
    /// The streams that depend on a resource, which was changed or deleted. All that admission reads must be here: see
    /// [`crate::admission`] and `credential`.
    pub fn after(key: &ResourceKey) -> Option<Self> {
        match &*key.kind {
            // Revocations, also of the tokens of one mesh. It is the name that tells whose, and names are many.
            "GlobalSecret" => Some(Self::All),
            "Mesh" => Some(Self::Mesh(key.name.clone())),
            // Signing keys and revocations.
            "Secret" => Some(Self::Mesh(key.mesh.clone())),
            "Dataplane" => Some(Self::Proxy(ProxyKey { mesh: key.mesh.clone(), name: key.name.clone() })),
            _ => None,
        }
    }
}

impl Registry {
    /// To be called with what [`Recheck::after`] returns for every change. Verifies the token of each of these streams, so
    /// it takes its time.
    pub fn recheck(&self, concerned: &BTreeSet<Recheck>) {
        if concerned.contains(&Recheck::All) {
            return self.recheck_where(|_| true);
        }
        for each in concerned {
            match each {
                Recheck::All => (),
                Recheck::Mesh(mesh) => self.recheck_where(|key| key.mesh == *mesh),
                Recheck::Proxy(key) if concerned.contains(&Recheck::Mesh(key.mesh.clone())) => (),
                Recheck::Proxy(key) => self.recheck_proxy(key),
            }
        }
    }

    /// Checks the next few streams: whatever was missed, no stream outlives its token by more than a round of these.
    pub(crate) fn recheck_next(&self) {
        for key in &self.0.sessions.next_to_recheck() {
            self.recheck_proxy(key);
        }
    }

    pub(crate) fn recheck_proxy(&self, key: &ProxyKey) {
        for presented in &self.0.sessions.presented_by(key) {
            self.recheck_streams(presented);
        }
    }

    fn recheck_where(&self, concerns: impl Fn(&ProxyKey) -> bool) {
        for presented in &self.0.sessions.presented_where(concerns) {
            self.recheck_streams(presented);
        }
    }

    fn recheck_streams(&self, presented: &Presented) {
        let Err((code, reason)) = self.check_again(&presented.key, &presented.credential) else { return };
        if self.0.sessions.close_streams(presented, code, &reason) {
            tracing::info!(proxy = %presented.key, reason, "xDS stream closed: the proxy is no longer authorized");
        }
    }

    fn check_again(&self, key: &ProxyKey, credential: &Credential) -> Result<(), (u8, String)> {
        let denied = |reason: String| (Closing::UNAUTHENTICATED, reason);
        let snapshot = self.0.catalog.store().snapshot();
        if stored::mesh(&snapshot, &key.mesh).is_none() {
            return Err(denied(format!("the mesh {:?} was deleted", key.mesh)));
        }
        let proof = credential::verify_again(&self.0.catalog, &self.0.settings, key, credential).map_err(denied)?;
        let Some(dataplane) = stored::dataplane(&snapshot, key) else {
            // A proxy that provided its Dataplane provides it again.
            self.0.registrations.forget(key);
            self.0.readiness.deleted(key, snapshot.revision());
            return Err((Closing::UNAVAILABLE, format!("the Dataplane {key} was deleted")));
        };
        proof.check(key, &dataplane).map_err(denied)
    }
}

#[cfg(test)]
mod tests {
    use kodiak_tokens::{
        KeyId,
        names::{ADMIN_USER_TOKEN, SecretName, TokenKind, zone_signing_public_key},
    };

    use super::*;

    fn after(name: &SecretName) -> Option<Recheck> {
        Recheck::after(&match name {
            SecretName::Mesh { mesh, name } => ResourceKey::in_mesh("Secret", mesh, name),
            SecretName::Global { name } => ResourceKey::global("GlobalSecret", name),
        })
    }

    #[test]
    fn every_secret_of_a_token_rechecks_its_streams() {
        let mesh = Recheck::Mesh("demo".into());
        for kind in TokenKind::all("demo") {
            for kid in [KeyId::serial(0), KeyId::serial(7), KeyId::parse("from-configuration").unwrap()] {
                for secret in kind.secrets(&kid) {
                    let found = after(&secret);
                    assert!(found == Some(Recheck::All) || found.as_ref() == Some(&mesh), "{secret}: {found:?}");
                }
            }
        }
        for global in [zone_signing_public_key(1), SecretName::Global { name: ADMIN_USER_TOKEN.to_owned() }] {
            assert_eq!(after(&global), Some(Recheck::All), "{global}");
        }
    }

    #[test]
    fn resources_that_no_token_depends_on_recheck_nothing() {
        for kind in ["MeshTimeout", "MeshService", "DataplaneInsight", "Config"] {
            assert_eq!(Recheck::after(&ResourceKey::in_mesh(kind, "demo", "a")), None, "{kind}");
        }
    }
}
