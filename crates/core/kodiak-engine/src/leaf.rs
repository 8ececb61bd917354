//! The certificate of one proxy: requested, renewed, and kept in use while the next one cannot be issued.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kodiak_identity::Issuer;
use kodiak_model::ProxyKey;
use kodiak_reachability::certificate;
use kodiak_rollout::{AppliedProvider, Rollout};
use kodiak_rules::Proxy;

use crate::{
    engine::{Issued, UpdateContext},
    identity::{Leaf, LeafIssuer, LeafRequest},
    view::View,
};

/// A certificate that cannot be issued is requested again after 1 s, 2 s, 4 s and so on, but at least every 64 s.
const MOST_RETRIES_DOUBLED: u32 = 6;

#[derive(Default)]
pub(crate) struct ProxyCertificate {
    last: Option<IssuedLeaf>,
    /// KRI of the MeshIdentity whose SPIRE agent issues it.
    spire: Option<Arc<str>>,
}

struct IssuedLeaf {
    issuer: LeafIssuer,
    leaf: Arc<Leaf>,
    /// Why the next one could not be issued.
    failure: Option<RenewalFailure>,
}

/// The certificate before stays in use.
struct RenewalFailure {
    error: String,
    attempts: u32,
    retry_at: Timestamp,
    /// The rollout step asks for the certificate of another issuer.
    is_step_pending: bool,
}

/// Issuer of a certificate, as the step of the mesh asks for it.
enum Wanted {
    Nothing,
    FromAgent(Arc<str>),
    Leaf(LeafRequest),
}

impl ProxyCertificate {
    /// Whether it is due for renewal.
    pub(crate) fn is_due(&self, now: Timestamp) -> bool {
        self.last.as_ref().is_some_and(|last| match &last.failure {
            Some(failure) => failure.retry_at <= now,
            None => last.leaf.renew_at <= now,
        })
    }

    /// Whether the certificate of the rollout step could not be issued.
    pub(crate) fn is_step_pending(&self) -> bool {
        let failure = self.last.as_ref().and_then(|last| last.failure.as_ref());
        failure.is_some_and(|failure| failure.is_step_pending)
    }

    /// For people.
    pub(crate) fn issued(&self, rollout: &Rollout) -> Option<Issued> {
        let last = self.last.as_ref();
        let name = self.spire.as_ref().or_else(|| last.map(|last| last.issuer.name()))?;
        Some(Issued {
            issuer: name.clone(),
            leaf: last.map(|last| last.leaf.clone()),
            failure: last.and_then(|last| Some(last.failure.as_ref()?.error.clone())),
            trust: trusted_names(rollout),
        })
    }

    /// The certificate to send. `None` for a proxy that gets none from the control plane.
    pub(crate) fn update(
        &mut self,
        key: &ProxyKey,
        view: &View,
        dataplane: &Proxy,
        context: &UpdateContext<'_>,
    ) -> Result<Option<Arc<Leaf>>, String> {
        self.spire = None;
        match wanted(key, view, dataplane)? {
            Wanted::Nothing => self.last = None,
            Wanted::FromAgent(kri) => *self = Self { last: None, spire: Some(kri) },
            Wanted::Leaf(request) => {
                let leaf = context.identities.leaf(&request, context.now);
                return self.renew(request.issuer, leaf, context.now).map(Some);
            }
        }
        Ok(None)
    }

    /// The new certificate. If it could not be issued, the last one, for as long as it is valid.
    fn renew(
        &mut self,
        issuer: LeafIssuer,
        next: Result<Arc<Leaf>, String>,
        now: Timestamp,
    ) -> Result<Arc<Leaf>, String> {
        let error = match next {
            Ok(leaf) => {
                self.last = Some(IssuedLeaf { issuer, leaf: leaf.clone(), failure: None });
                return Ok(leaf);
            }
            Err(error) => error,
        };
        let Some(last) = self.last.as_mut().filter(|last| now < last.leaf.not_after) else {
            self.last = None;
            return Err(error);
        };
        let attempts = last.failure.as_ref().map_or(0, |failure| failure.attempts);
        let pause = SignedDuration::from_secs(1 << attempts.min(MOST_RETRIES_DOUBLED));
        last.failure = Some(RenewalFailure {
            error,
            attempts: attempts + 1,
            retry_at: now.checked_add(pause).unwrap_or(Timestamp::MAX),
            is_step_pending: last.issuer != issuer,
        });
        Ok(last.leaf.clone())
    }
}

/// Backends and trust domains, for people.
fn trusted_names(rollout: &Rollout) -> Vec<Arc<str>> {
    let mut backends: Vec<Arc<str>> = rollout.trust.iter().map(|backend| backend.name.clone()).collect();
    backends.dedup();
    backends.into_iter().chain(rollout.trust_domains.keys().cloned()).collect()
}

fn wanted(key: &ProxyKey, view: &View, dataplane: &Proxy) -> Result<Wanted, String> {
    let Some(issuer) = kodiak_identity::issuer_of(&view.rollout.issuers, dataplane) else { return Ok(Wanted::Nothing) };
    let (issuer, uris) = match issuer {
        Issuer::Backend(signer) => {
            let uris = certificate(&key.mesh, dataplane).ok_or(
                "cannot issue a certificate: add a kuma.io/service tag or a kuma.io/workload label to the Dataplane",
            )?;
            (LeafIssuer::Backend(signer.clone()), uris)
        }
        Issuer::Identity { identity, provider: AppliedProvider::Bundled { ca, seconds }, spiffe_id } => {
            let (kri, ca, seconds) = (identity.kri.clone(), ca.clone(), *seconds);
            (LeafIssuer::Identity { kri, ca, seconds }, Arc::from([spiffe_id]))
        }
        Issuer::Identity { identity, provider: AppliedProvider::Spire { .. }, .. } => {
            return Ok(Wanted::FromAgent(identity.kri.clone()));
        }
    };
    Ok(Wanted::Leaf(LeafRequest { proxy: key.clone(), issuer, uris }))
}

#[cfg(test)]
mod tests {
    use kodiak_xds::input::Identity;
    use kodiak_xds_stream::Version;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn leaf(version: u128) -> Arc<Leaf> {
        Arc::new(Leaf {
            identity: Identity { certificate: "cert".into(), key: "key".into() },
            serial: "1".into(),
            spiffe_id: "spiffe://a/b".into(),
            version: Version(version),
            not_after: at(1000),
            renew_at: at(500),
        })
    }

    #[test]
    fn last_certificate_stays_in_use_while_the_next_cannot_be_issued() {
        let backend = || LeafIssuer::Backend("ca".into());
        let mut certificate = ProxyCertificate::default();
        assert!(certificate.renew(backend(), Err("no CA".to_owned()), at(0)).is_err(), "there is none to use");
        certificate.renew(backend(), Ok(leaf(1)), at(0)).unwrap();
        assert!(!certificate.is_due(at(499)) && certificate.is_due(at(500)));
        for (second, next) in [(500, 501), (501, 503), (503, 507)] {
            assert!(certificate.is_due(at(second)));
            let kept = certificate.renew(backend(), Err("no CA".to_owned()), at(second)).unwrap();
            assert_eq!(kept.version, Version(1));
            assert!(!certificate.is_due(at(next - 1)) && certificate.is_due(at(next)), "retries are spaced");
        }
        assert!(!certificate.is_step_pending(), "the issuer is the same");
        assert_eq!(certificate.issued(&Rollout::default()).unwrap().failure.as_deref(), Some("no CA"));
        certificate.renew(backend(), Ok(leaf(2)), at(507)).unwrap();
        assert!(certificate.issued(&Rollout::default()).unwrap().failure.is_none());
        assert!(certificate.renew(backend(), Err("no CA".to_owned()), at(1000)).is_err(), "it has expired");
    }

    #[test]
    fn proxy_without_the_certificate_of_a_step_is_pending() {
        let mut certificate = ProxyCertificate::default();
        certificate.renew(LeafIssuer::Backend("old".into()), Ok(leaf(1)), at(0)).unwrap();
        certificate.renew(LeafIssuer::Backend("new".into()), Err("no CA".to_owned()), at(1)).unwrap();
        assert!(certificate.is_step_pending());
        certificate.renew(LeafIssuer::Backend("new".into()), Ok(leaf(2)), at(2)).unwrap();
        assert!(!certificate.is_step_pending());
    }
}
